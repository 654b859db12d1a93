// edge_worker's composition root: one board's data, one channel, one core, until the run ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/net/transport.h"
#include "runtime/worker/local_data.h"
#include "runtime/worker/state_keeper.h"

namespace paceline {

struct WorkerDaemonOptions {
  std::string server;  // "tls+tcp://desk.local:7433"
  std::optional<TlsOptions> tls;
  std::string name;  // unique in the fleet
  LocalDataOptions data;
  std::string backend = "auto";
  StateOptions state;
  double epsilon_max = 0;  // as WorkerOptions has it
  LinkLimit link;
  // Emulates a slower board: a step of a whole batch takes at least so long. 0: as fast as it goes.
  double step_ms = 0;
};

// Runs until the server ends the run or SIGINT or SIGTERM comes; both are success. Call it once,
// from the main thread, before any other thread exists. Errors: bad data or options
// (kInvalidArgument, kNotFound, kCorrupt), a state folder in use (kUnavailable), or what the server
// refused (kRefused).
Status run_worker(const WorkerDaemonOptions& options);

}  // namespace paceline
