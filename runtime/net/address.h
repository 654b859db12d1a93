// Addresses as people write them.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

inline constexpr unsigned kDefaultPort = 7433;

// "desk.local" -> "tcp://desk.local:7433"; "[::1]:99" and "ipc:///run/x.sock" pass through
// completed. Errors: kInvalidArgument with the forms.
Result<std::string> server_address(std::string_view text);

}  // namespace paceline
