// Addresses as people write them.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

inline constexpr unsigned kDefaultPort = 7433;

// "desk.local" -> "tcp://desk.local:7433"; "[::1]:99", "tls+tcp://desk.local" and
// "ipc:///run/x.sock" pass through completed. Errors: kInvalidArgument with the forms.
Result<std::string> server_address(std::string_view text, unsigned default_port = kDefaultPort);

// Of what server_address() gives.
bool is_local_address(std::string_view address);  // ipc://, 127.x.x.x, localhost, [::1]
bool is_secure_address(std::string_view address);
// TLS for whatever leaves the machine: "tcp://desk:1" -> "tls+tcp://desk:1".
std::string secure_unless_local(const std::string& address);
// Without scheme and port: "desk.local", "::1".
std::string host_of(std::string_view address);
// 0 where there is none.
unsigned port_of(std::string_view address);

}  // namespace paceline
