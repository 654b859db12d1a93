// A folder that is there as a whole or not at all.
#pragma once

#include <functional>
#include <string>

#include "runtime/base/status.h"

namespace paceline {

// Lets `fill` write into a folder beside `to`, readable by its owner only, which becomes `to` if
// all went well. Errors: kInvalidArgument if `to` is there: nothing is ever overwritten; kIo; those
// of `fill`.
Status make_new_folder(const std::string& to,
                       const std::function<Status(const std::string& folder)>& fill);

}  // namespace paceline
