#include "server/command_backup.h"

#include <filesystem>
#include <optional>
#include <span>

#include "runtime/base/files.h"
#include "runtime/base/limits.h"
#include "runtime/base/state_store.h"
#include "server/fleet_folder.h"
#include "server/new_folder.h"
#include "server/run_folder.h"

namespace paceline {

namespace {

bool is_there(const std::string& path) {
  std::error_code ignored;
  return !path.empty() && std::filesystem::exists(path, ignored);
}

Result<size_t> copy_fleet(const std::string& from, const std::string& to) {
  PACELINE_ASSIGN(const FleetFolder fleet, FleetFolder::open(from));
  PACELINE_ASSIGN(const FleetList list, fleet.read());
  PACELINE_TRY(FleetFolder::write(to, fleet.authority(), fleet.server(), list));
  return list.workers.size();
}

// The newest whole snapshot of a state folder, which its server may be writing to.
Result<StateStore::Found> newest_snapshot(const std::string& folder) {
  std::optional<StateStore::Found> newest;
  Status failure = fail(Code::kNotFound, "%s holds no run's state", folder.c_str());
  for (const char* half : {"a", "b"}) {
    Result<StateStore::Found> found = StateStore::read(folder + "/" + kStateName + "." + half);
    if (!found) {
      if (found.error().code() != Code::kNotFound) failure = found.error();
    } else if (!newest || found->serial > newest->serial) {
      newest = std::move(*found);
    }
  }
  if (!newest) return fail(failure);
  return std::move(*newest);
}

// Not as an orderly end: what came after the snapshot is not in the copy.
Status copy_state(const std::string& from, const std::string& to, const std::string& restored) {
  PACELINE_ASSIGN(const StateStore::Found found, newest_snapshot(from));
  const auto fill = [&](const std::string& folder) -> Status {
    PACELINE_ASSIGN(StateStore store, StateStore::open(folder, kStateName));
    PACELINE_TRY(store.save(found.state, false));
    if (!restored.empty())
      PACELINE_TRY(write_file_atomically(folder + "/" + kRestoredName,
                                         std::as_bytes(std::span(restored)), FileAccess::kOwner));
    PACELINE_ASSIGN(const Bytes run, read_file(from + "/run.toml", kRunTextBytesMax));
    return write_file_atomically(folder + "/run.toml", run, FileAccess::kOwner);
  };
  return make_new_folder(to, fill);
}

std::string told(const std::string& folder, std::optional<size_t> workers, bool state) {
  std::string text = folder + ":";
  if (workers) text += format_text(" a fleet of %zu worker%s", *workers, *workers == 1 ? "" : "s");
  if (state) text += std::string(workers ? " and" : "") + " a run's newest snapshot";
  return text + "\n";
}

}  // namespace

Result<std::string> back_up(const ServerFolders& from, const std::string& to) {
  if (!is_there(from.fleet) && !is_there(from.state))
    return fail(Code::kNotFound,
                "neither a fleet's folder (%s) nor a run's (%s) is there; name them with --fleet "
                "and --state",
                from.fleet.c_str(), from.state.empty() ? "not named" : from.state.c_str());
  std::optional<size_t> workers;
  const auto fill = [&](const std::string& folder) -> Status {
    if (is_there(from.fleet)) {
      PACELINE_ASSIGN(workers, copy_fleet(from.fleet, folder + "/fleet"));
    }
    if (!is_there(from.state)) return {};
    return copy_state(from.state, folder + "/state", "");
  };
  PACELINE_TRY(make_new_folder(to, fill));
  return told(to, workers, is_there(from.state)) +
         (workers
              ? "Who has this folder can make itself your server: keep it where you keep keys.\n"
              : "");
}

Result<std::string> restore_backup(const std::string& from, const ServerFolders& to,
                                   int64_t now_s) {
  const std::string fleet = from + "/fleet", state = from + "/state";
  if (!is_there(fleet) && !is_there(state))
    return fail(Code::kNotFound, "%s is no backup: it has neither fleet/ nor state/", from.c_str());
  const bool run = is_there(state) && !to.state.empty();
  std::optional<size_t> workers;
  // Looked at before anything is written.
  for (const std::string& folder : {is_there(fleet) ? to.fleet : "", run ? to.state : ""})
    if (is_there(folder))
      return fail(Code::kInvalidArgument, "%s is there already and is never overwritten",
                  folder.c_str());
  if (is_there(fleet)) {
    PACELINE_ASSIGN(workers, copy_fleet(fleet, to.fleet));
  }
  if (run)
    PACELINE_TRY(copy_state(state, to.state, format_text("%lld", static_cast<long long>(now_s))));
  std::string text = "from " + told(from, workers, run);
  if (workers)
    text +=
        "Who was revoked since the backup has to be revoked again; who was enrolled since joins "
        "again.\n";
  if (is_there(state) && !run)
    text += "The backup holds a run, too: name a folder for it with --state.\n";
  return text;
}

}  // namespace paceline
