// The file that describes a run: `edge_server serve run.toml`.
//
// [model], [[layer]], [training] (train/training.h), [privacy] (privacy/privacy.h) and [data]
// (data/schema.h) are what workers are sent. Beside them:
//   [communication]  pace, freq, codec_up, codec_down, rate_end, warmup_publications
//   [server]         listen, fleet, start, state, journal, disk_full, checkpoint_ms, min_workers,
//   heartbeat_ms, exchange_deadline_ms, aggregate, seconds, rounds
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/data/schema.h"
#include "server/server_core.h"

namespace paceline {

struct ServeConfig {
  ServerOptions core;
  DataSchema schema;
  std::string listen = "tcp://0.0.0.0:7433";
  std::string state_folder;  // empty: nothing is kept over a restart
  std::string start_file;    // a model to start from where no state is kept yet; empty: none
  // Of the fleet whose workers alone are let in, where `listen` is "tls+tcp://"; else empty.
  std::string fleet_folder;
  std::string enrol_listen;  // where boards join it
  Recording journal = Recording::kRecovery;
  bool waits_for_disk = true;             // as RunKeeperOptions has it
  std::optional<uint32_t> checkpoint_ms;  // from one snapshot to the next at least
  uint32_t snapshot_ms() const {
    return checkpoint_ms.value_or(journal == Recording::kOff ? 10'000 : 60'000);
  }
  double seconds = 0;  // of the planned run; 0: no plan
  uint64_t rounds = 0;
};

// `source` names the text in messages. Errors: kInvalidArgument with line, column and the nearest
// key.
Result<ServeConfig> parse_serve_config(std::string_view text, const std::string& source);

// "round", "payload", "off". Errors: kInvalidArgument.
Result<Recording> journal_by_name(std::string_view name);

// A commented file to start from, as `edge_server example` prints it.
extern const char* const kExampleRun;

}  // namespace paceline
