// Boards of a storm that do something, as programs of their own.
#pragma once

#include <string>

#include "runtime/base/status.h"
#include "runtime/net/transport.h"

namespace paceline::test {

// For the others here, as PREFIX.pem, PREFIX.key and PREFIX.authority.
Status write_credentials(const std::string& prefix, const TlsOptions& tls);

// Pushes a chunk and fetches one, again and again, and prints how many milliseconds each pair took,
// a line each. Returns only with an error: what the files or the address have.
Status run_busy_board(const std::string& address, const std::string& name,
                      const std::string& prefix);
// Pushes as fast as it can, on all lanes, and waits for no answer. The same.
Status run_flooding_board(const std::string& address, const std::string& name,
                          const std::string& prefix);

}  // namespace paceline::test
