// What a run keeps on disk, beside the two snapshots of StateStore ("state"): journals, each named
// by the number of the snapshot that it follows, and, where a run is to be replayed, all snapshots.
//
//   state.a, state.b          the newest two snapshots
//   state.00000012.journal    what happened since snapshot 12
//   state.00000012.lapsed     the same, and then grants that no record holds
//   state.00000012.snapshot   snapshot 12, kept for `edge_server replay`
//   run.toml                  the run's description
//   restored                  a folder that a backup made: by how much the generation rises at
//   least
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/journal.h"
#include "server/server_core.h"

namespace paceline {

inline constexpr const char* kStateName = "state";
inline constexpr const char* kRestoredName = "restored";

enum class KeptKind { kJournal, kLapsed, kSnapshot };

struct KeptFile {
  uint64_t serial = 0;
  KeptKind kind = KeptKind::kJournal;
  std::string path;
  uint64_t bytes = 0;
};

std::string kept_path(const std::string& folder, uint64_t serial, KeptKind kind);

// By number, journals first.
std::vector<KeptFile> kept_files(const std::string& folder);

// One that holds something; none in a folder whose first life did not get as far.
std::optional<std::string> journal_with_records(const std::string& folder);

struct Redone {
  uint64_t serial = 0;   // of the last journal that was read; 0: none
  uint64_t records = 0;  // that were carried out
  // Everything that was acknowledged is there: no journal is damaged or has lapsed, and the last
  // one leads to where the run was.
  bool whole = false;
  std::string fault;  // why not
};

// Leads `core`, which holds snapshot `serial`, through the journals that follow it, as far as they
// follow one from another. Each record is `seen` before it is carried out. Errors: kIo; kCorrupt
// for a whole record that leads elsewhere than it did, as another version of the program may.
Result<Redone> redo_journals(const std::string& folder, uint64_t serial, ServerCore* core,
                             const std::function<Status(const JournalRecord&)>& seen = {});

}  // namespace paceline
