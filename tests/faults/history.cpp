#include "tests/faults/history.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/base/files.h"
#include "runtime/base/state_store.h"
#include "server/run_config.h"
#include "server/run_folder.h"

namespace paceline::test {

namespace {

constexpr size_t kReasonsMax = 20;
constexpr uint64_t kFileBytesMax = uint64_t{1} << 30;

// The number between `before` and `after`.
std::optional<uint64_t> number_in(std::string_view line, std::string_view before,
                                  std::string_view after) {
  const size_t begin = line.find(before);
  if (begin == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  const char* end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data() + begin + before.size(), end, number);
  if (error != std::errc() || !std::string_view(rest, end).starts_with(after)) return std::nullopt;
  return number;
}

Result<std::unique_ptr<ServerCore>> core_of(const std::string& folder) {
  const std::string run_file = folder + "/run.toml";
  PACELINE_ASSIGN(const Bytes bytes, read_file(run_file, kFileBytesMax));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  PACELINE_ASSIGN(ServeConfig config, parse_serve_config(text, run_file));
  return ServerCore::make(std::move(config.core));
}

// Of the two snapshots the newer that is whole.
std::optional<StateStore::Found> newest_snapshot(const std::string& folder) {
  std::optional<StateStore::Found> newest;
  for (const char* slot : {".a", ".b"}) {
    Result<StateStore::Found> read = StateStore::read(folder + "/" + kStateName + slot);
    if (read && (!newest || read->serial > newest->serial)) newest = std::move(*read);
  }
  return newest;
}

}  // namespace

void History::read_worker_line(const std::string& worker, std::string_view line) {
  if (const auto granted = number_in(line, ": update ", " is granted")) {
    (line.ends_with("not durable") ? not_durable_ : granted_)[worker].insert(*granted);
  } else if (const auto earlier = number_in(line, ": update ", " was granted")) {
    (lapses_ ? not_durable_ : granted_)[worker].insert(*earlier);
  } else if (const auto refused = number_in(line, ": update ", " is refused")) {
    refused_[worker].insert(*refused);
  } else if (const auto publication = number_in(line, ": publication ", " checksum ")) {
    uint32_t checksum = 0;
    const std::string_view text = line.substr(line.size() - std::min<size_t>(line.size(), 8));
    std::from_chars(text.data(), text.data() + text.size(), checksum, 16);
    note_model(*publication, checksum, worker);
  }
}

void History::note_model(uint64_t publication, uint32_t checksum, const std::string& by) {
  // After a rollback, numbers begin to be used again at different times on different machines.
  if (lapses_ || generation_ != 1) return;
  const auto [known, is_new] = models_.try_emplace(publication, checksum);
  if (is_new || known->second == checksum) return;
  ++models_differ_;
  break_promise(format_text("publication %llu is %08x to %s, it was %08x",
                            static_cast<unsigned long long>(publication), checksum, by.c_str(),
                            known->second));
}

void History::break_promise(std::string reason) {
  if (reasons_.size() < kReasonsMax) reasons_.push_back(std::move(reason));
}

void History::read_journals(const std::string& folder) {
  const std::vector<KeptFile> files = kept_files(folder);
  for (const KeptFile& file : files) {
    if (file.kind == KeptKind::kSnapshot) continue;
    const Result<Bytes> bytes = read_file(file.path, kFileBytesMax);
    if (!bytes) continue;  // a server at work has just removed it
    const Result<Journal> journal = parse_journal(*bytes);
    Updates updates;
    if (journal)
      for (const JournalRecord& written : journal->records) {
        const Result<ServerRecord> record = parse_record(written.bytes);
        if (!record) continue;  // redo_journals() says so
        for (const ModelMove& move : record->moves)
          for (const RecordedUpdate& update : move.updates)
            updates.emplace_back(update.worker, update.sequence);
      }
    journals_[file.serial] = std::move(updates);
  }
  // Above what is there, a power cut has taken it; below, the server has removed what it does not
  // need any more.
  if (!files.empty()) journals_.erase(journals_.upper_bound(files.back().serial), journals_.end());
}

Result<History::Found> History::read_folder(const std::string& folder) {
  PACELINE_ASSIGN(const std::unique_ptr<ServerCore> core, core_of(folder));
  const std::optional<StateStore::Found> snapshot = newest_snapshot(folder);
  if (!snapshot) return fail(Code::kCorrupt, "%s: no whole snapshot", folder.c_str());
  PACELINE_TRY(core->load(snapshot->state));
  Found found;
  if (!snapshot->exact) {
    PACELINE_ASSIGN(const Redone redone, redo_journals(folder, snapshot->serial, core.get()));
    found.whole = redone.whole;
    found.fault = redone.fault;
  }
  read_journals(folder);
  found.generation = core->generation();
  found.publication = core->publication();
  found.checksum = core->checksum();
  if (found.whole) note_model(found.publication, found.checksum, "the server's folder");
  if (!found.whole) ++generation_;
  names_.clear();
  last_settled_.clear();
  for (const Member& member : core->members()) {
    names_.push_back(member.name);
    const uint64_t leaver = member.held && member.held->granted ? member.held->sequence : 0;
    last_settled_[member.name] = std::max(member.last_settled, leaver);
  }
  for (const auto& [worker, sequences] : granted_) {
    if (sequences.empty() || *sequences.rbegin() <= last_settled_[worker]) continue;
    if (lost_[worker].insert(*sequences.rbegin()).second)
      break_promise(format_text("%s was granted update %llu, a start would find %llu",
                                worker.c_str(),
                                static_cast<unsigned long long>(*sequences.rbegin()),
                                static_cast<unsigned long long>(last_settled_[worker])));
  }
  return found;
}

History::Verdict History::verdict() {
  Verdict verdict;
  std::map<std::string, std::set<uint64_t>> applied;
  for (const auto& [serial, updates] : journals_)
    for (const auto& [id, sequence] : updates) {
      const std::string name = id < names_.size() ? names_[id] : format_text("worker %u", id);
      ++verdict.applied;
      if (applied[name].insert(sequence).second) continue;
      ++verdict.doubled;
      break_promise(format_text("update %llu of %s is in the journals twice",
                                static_cast<unsigned long long>(sequence), name.c_str()));
    }
  for (const auto& [worker, sequences] : granted_)
    for (const uint64_t sequence : sequences) {
      ++verdict.acknowledged;
      if (applied[worker].contains(sequence)) continue;
      if (gaps_ && sequence <= last_settled_[worker]) {
        ++verdict.in_snapshots;
      } else if (lost_[worker].insert(sequence).second) {
        break_promise(format_text("update %llu of %s was granted and is in no journal",
                                  static_cast<unsigned long long>(sequence), worker.c_str()));
      }
    }
  for (const auto& [worker, sequences] : lost_) verdict.lost += sequences.size();
  for (const auto& [worker, sequences] : not_durable_) verdict.not_durable += sequences.size();
  for (const auto& [worker, sequences] : refused_)
    for (const uint64_t sequence : sequences) {
      if (lapses_ || !applied[worker].contains(sequence)) continue;
      ++verdict.taken_though_refused;
      break_promise(format_text("update %llu of %s was refused and is in the journals",
                                static_cast<unsigned long long>(sequence), worker.c_str()));
    }
  verdict.models_differ = models_differ_;
  verdict.reasons = reasons_;
  return verdict;
}

}  // namespace paceline::test
