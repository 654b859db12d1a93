// `edge_server serve`: one run for boards that dial in, until it ends or is stopped.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace paceline {

struct ServeOptions {
  std::string run_file;
  // Instead of what the file says; empty or 0: as the file says.
  std::string listen;
  std::string state_folder;
  std::string start_file;
  std::string fleet_folder;
  std::string journal;
  // No encryption and no identities, wherever it listens.
  bool plain = false;
  double seconds = 0;
  uint64_t rounds = 0;
  // Where the model goes when the run ends or is stopped. Empty: model.safetensors in the state
  // folder.
  std::string model_file;
  // A control set of the server's own, evaluated while the run goes on. Optional: the workers
  // evaluate too.
  std::string control_file;
  std::string control_label_file;
};

// Prints "listening on ADDRESS" to stdout once workers can dial in. SIGINT and SIGTERM stop it in
// order: workers then wait for the server to come back. Errors: those of the run's file, of
// ServerDaemon and of the control set.
Status serve_run(const ServeOptions& options);

}  // namespace paceline
