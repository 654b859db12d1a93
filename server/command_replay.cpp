#include "server/command_replay.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "runtime/base/files.h"
#include "runtime/base/state_store.h"
#include "server/run_config.h"
#include "server/run_folder.h"
#include "server/server_record.h"

namespace paceline {

namespace {

using Snapshot = StateStore::Found;

// Whole ones, the oldest first, at least one; a server that is at work may just be writing another.
Result<std::vector<Snapshot>> find_snapshots(const std::string& folder) {
  std::vector<std::string> paths;
  for (const KeptFile& file : kept_files(folder))
    if (file.kind == KeptKind::kSnapshot) paths.push_back(file.path);
  for (const char* slot : {".a", ".b"}) paths.push_back(folder + "/" + kStateName + slot);
  std::vector<Snapshot> found;
  for (const std::string& path : paths)
    if (Result<Snapshot> read = StateStore::read(path)) found.push_back(std::move(*read));
  if (found.empty())
    return fail(Code::kNotFound, "%s holds no run: no whole state.a or state.b", folder.c_str());
  std::ranges::sort(found, {}, &Snapshot::serial);
  return found;
}

Status note_record(const JournalRecord& written, std::map<uint32_t, Contribution>* contributions) {
  PACELINE_ASSIGN(const ServerRecord record, parse_record(written.bytes));
  for (const ModelMove& move : record.moves)
    for (const RecordedUpdate& update : move.updates) {
      Contribution& own = (*contributions)[update.worker];
      if (own.updates > 0 && update.sequence <= own.last_sequence)
        return fail(Code::kCorrupt, "update %llu of worker %u is applied after its update %llu",
                    static_cast<unsigned long long>(update.sequence), update.worker,
                    static_cast<unsigned long long>(own.last_sequence));
      if (own.updates == 0) {
        own.first_sequence = update.sequence;
        own.first_unix_us = written.unix_us;
      }
      ++own.updates;
      own.steps += update.steps;
      own.bytes += update.bytes;
      own.last_sequence = update.sequence;
      own.last_unix_us = written.unix_us;
    }
  return {};
}

std::string time_text(int64_t unix_us) {
  const auto seconds = static_cast<std::time_t>(unix_us / 1'000'000);
  std::tm parts{};
  char text[32] = {};
  if (gmtime_r(&seconds, &parts) != nullptr)
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

}  // namespace

Result<KeptRun> open_kept_run(const std::string& folder) {
  const std::string run_file = folder + "/run.toml";
  const Result<Bytes> bytes = read_file(run_file, kRunTextBytesMax);
  if (!bytes)
    return fail(bytes.error().code(), "%s; give the state folder of a run that was served",
                bytes.error().message().c_str());
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  PACELINE_ASSIGN(ServeConfig config, parse_serve_config(text, run_file));
  KeptRun run;
  run.schema = std::move(config.schema);
  PACELINE_ASSIGN(run.core, ServerCore::make(std::move(config.core)));
  PACELINE_ASSIGN(run.snapshots, find_snapshots(folder));
  PACELINE_TRY(run.core->load(run.snapshots.front().state));
  return run;
}

Result<Replay> replay_run(const std::string& folder) {
  PACELINE_ASSIGN(const KeptRun run, open_kept_run(folder));
  ServerCore* core = run.core.get();
  Replay replay;
  replay.from_snapshot = run.snapshots.front().serial;
  PACELINE_ASSIGN(
      const Redone redone,
      redo_journals(folder, replay.from_snapshot, core, [&](const JournalRecord& record) {
        return note_record(record, &replay.contributions);
      }));
  replay.records = redone.records;
  replay.fault = redone.fault;
  replay.generation = core->generation();
  replay.publication = core->publication();
  replay.rounds = core->rounds_done();
  replay.checksum = core->checksum();
  const Snapshot& newest = run.snapshots.back();
  replay.agrees = newest.exact && newest.serial > redone.serial && newest.state == core->save();
  for (auto& [id, own] : replay.contributions)
    if (id < core->members().size()) own.name = core->members()[id].name;
  return replay;
}

std::string replay_text(const Replay& replay) {
  std::string text = format_text(
      "%llu records after snapshot %llu: generation %llu, %llu rounds, publication %llu, checksum "
      "%08x\n",
      static_cast<unsigned long long>(replay.records),
      static_cast<unsigned long long>(replay.from_snapshot),
      static_cast<unsigned long long>(replay.generation),
      static_cast<unsigned long long>(replay.rounds),
      static_cast<unsigned long long>(replay.publication), replay.checksum);
  if (!replay.fault.empty()) return text + "what came last is not there: " + replay.fault + "\n";
  if (replay.agrees) text += "the state of the run's end is the same to the byte\n";
  return text;
}

std::string inspect_text(const Replay& replay) {
  size_t width = 6;
  for (const auto& [id, own] : replay.contributions) width = std::max(width, own.name.size());
  std::string text = format_text("%-*s %9s %10s %10s  %-19s  %s\n", static_cast<int>(width),
                                 "worker", "updates", "steps", "kB", "first (UTC)", "last (UTC)");
  for (const auto& [id, own] : replay.contributions)
    text += format_text("%-*s %9llu %10llu %10.1f  %-19s  %s\n", static_cast<int>(width),
                        own.name.c_str(), static_cast<unsigned long long>(own.updates),
                        static_cast<unsigned long long>(own.steps),
                        static_cast<double>(own.bytes) / 1e3, time_text(own.first_unix_us).c_str(),
                        time_text(own.last_unix_us).c_str());
  return text;
}

}  // namespace paceline
