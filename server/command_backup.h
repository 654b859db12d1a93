// `edge_server backup` and `restore`: what a server can't be made anew from. Without the
// authority's key every board would have to be visited.
//
//   FOLDER/fleet/   authority and server with their keys, and the list of workers
//   FOLDER/state/   the run's newest snapshot and its description, as a state folder of its own
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace paceline {

struct ServerFolders {
  std::string fleet;  // empty, or not there: left out
  std::string state;
};

// Copies into the new folder `to`, all or nothing; a server may be at work meanwhile. Returns what
// to print. Errors: kInvalidArgument if `to` is there; kNotFound if there is nothing to copy;
// kCorrupt for what is no good already; kIo.
Result<std::string> back_up(const ServerFolders& from, const std::string& to);

// The way back, into folders that are not there. What came after the backup is lost, so the run
// goes on in another generation, which `now_s` makes unlike any that a board has met.
Result<std::string> restore_backup(const std::string& from, const ServerFolders& to, int64_t now_s);

}  // namespace paceline
