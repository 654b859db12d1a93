// `edge_server replay` and `inspect`: what a run's folder says of the run, without its server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/state_store.h"
#include "runtime/base/status.h"
#include "runtime/data/schema.h"
#include "server/server_core.h"

namespace paceline {

// What the journals hold of one worker.
struct Contribution {
  std::string name;
  uint64_t updates = 0;  // that were applied
  uint64_t steps = 0;
  uint64_t bytes = 0;  // of their payloads
  uint64_t first_sequence = 0, last_sequence = 0;
  int64_t first_unix_us = 0, last_unix_us = 0;
};

struct Replay {
  uint64_t from_snapshot = 0;
  uint64_t records = 0;
  uint64_t generation = 0, publication = 0, rounds = 0;
  uint32_t checksum = 0;                           // of the published model
  std::string fault;                               // why what came last is not there; empty: it is
  bool agrees = false;                             // with the state of an orderly end
  std::map<uint32_t, Contribution> contributions;  // by worker id
};

// A run's folder, opened to be carried out again.
struct KeptRun {
  DataSchema schema;
  std::unique_ptr<ServerCore> core;          // at the oldest snapshot
  std::vector<StateStore::Found> snapshots;  // whole ones, the oldest first, at least one
};
// Errors: kNotFound; kCorrupt; kInvalidArgument.
Result<KeptRun> open_kept_run(const std::string& folder);

// Carries out all journals that the folder holds behind its oldest snapshot. Reads only; the run's
// server may be at work. Errors: kNotFound; kCorrupt, also where an update is in them twice or a
// record leads elsewhere than it did.
Result<Replay> replay_run(const std::string& folder);

std::string replay_text(const Replay& replay);
// A line for each worker: what it contributed, and when.
std::string inspect_text(const Replay& replay);

}  // namespace paceline
