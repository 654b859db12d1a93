// `edge_worker join`: takes this board into a fleet by a one-time code.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace paceline {

inline constexpr unsigned kEnrolmentPort = 7434;  // the run's and one

struct JoinOptions {
  std::string server;  // HOST or HOST:PORT of the enrolment
  std::string code;
  std::string folder;  // for the credentials
};

// Makes a key, has it certified and saves the result. Returns the name that the board got. Errors:
// kInvalidArgument for an address or a code that can't be; kUnavailable with the reason if nobody
// answers; kRefused if the server is not the one of the code, or says no.
Result<std::string> join_fleet(const JoinOptions& options);

}  // namespace paceline
