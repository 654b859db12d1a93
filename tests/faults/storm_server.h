// One real server with a fleet of its own, and what it takes of the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/net/transport.h"
#include "tests/support/tls_fleet.h"
#include "tests/system/process.h"

namespace paceline::test {

struct StormServerOptions {
  std::string program;  // edge_server
  std::string folder;   // for fleet, run and log
  std::string run_text;
  bool secure = true;
  std::string limits = "";  // for its process, as a shell has them: "ulimit -n 64"
};

class StormServer {
 public:
  // Until it listens; a later start is at the same address. Errors: what it said when it ended.
  static Result<std::unique_ptr<StormServer>> start(const StormServerOptions& options);
  Status start_again();
  void kill_hard() { process_->kill_hard(); }

  const std::string& address() const { return address_; }
  // Lets boards into the fleet; the server sees it within a quarter of a second. Errors: those of
  // the fleet's folder.
  Result<std::vector<TlsOptions>> enlist(const std::vector<std::string>& names);
  Process& process() { return *process_; }

  double cpu_seconds() const;  // of this life
  double megabytes() const;    // resident
  size_t files() const;        // open

 private:
  explicit StormServer(StormServerOptions options) : options_(std::move(options)) {}

  StormServerOptions options_;
  std::string fleet_folder_;
  std::unique_ptr<TlsFleet> authority_;
  std::string address_;
  std::unique_ptr<Process> process_;
};

}  // namespace paceline::test
