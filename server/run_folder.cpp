#include "server/run_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <tuple>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/status.h"

namespace paceline {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kJournalFileBytesMax = uint64_t{1} << 30;
constexpr const char* kSuffixes[] = {".journal", ".lapsed", ".snapshot"};  // by KeptKind

// Of "state.00000012.journal".
bool parse_name(const std::string& name, KeptFile* file) {
  const std::string prefix = std::string(kStateName) + ".";
  if (!name.starts_with(prefix)) return false;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + prefix.size(), end, file->serial);
  if (error != std::errc()) return false;
  const auto suffix = std::ranges::find(kSuffixes, std::string(rest, end));
  if (suffix == std::end(kSuffixes)) return false;
  file->kind = static_cast<KeptKind>(suffix - std::begin(kSuffixes));
  return true;
}

}  // namespace

std::string kept_path(const std::string& folder, uint64_t serial, KeptKind kind) {
  return format_text("%s/%s.%08llu%s", folder.c_str(), kStateName,
                     static_cast<unsigned long long>(serial), kSuffixes[static_cast<size_t>(kind)]);
}

std::vector<KeptFile> kept_files(const std::string& folder) {
  std::vector<KeptFile> files;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    KeptFile file;
    if (!parse_name(entry->path().filename().string(), &file)) continue;
    file.path = entry->path().string();
    std::error_code gone;
    file.bytes = entry->file_size(gone);
    if (!gone) files.push_back(std::move(file));
  }
  std::ranges::sort(files, [](const KeptFile& a, const KeptFile& b) {
    return std::tie(a.serial, a.kind) < std::tie(b.serial, b.kind);
  });
  return files;
}

std::optional<std::string> journal_with_records(const std::string& folder) {
  for (const KeptFile& file : kept_files(folder)) {
    if (file.kind == KeptKind::kSnapshot) continue;
    const Result<Bytes> bytes = read_file(file.path, kJournalFileBytesMax);
    const Result<Journal> journal = bytes ? parse_journal(*bytes) : fail(bytes.error());
    if (journal && !journal->records.empty()) return file.path;
  }
  return std::nullopt;
}

Result<Redone> redo_journals(const std::string& folder, uint64_t serial, ServerCore* core,
                             const std::function<Status(const JournalRecord&)>& seen) {
  Redone done;
  done.fault = "no journal follows its newest snapshot";
  for (const KeptFile& file : kept_files(folder)) {
    if (file.serial < serial || file.kind == KeptKind::kSnapshot) continue;
    PACELINE_ASSIGN(const Bytes bytes, read_file(file.path, kJournalFileBytesMax));
    const Result<Journal> journal = parse_journal(bytes);
    const auto faulty = [&](const char* what) {
      done.whole = false;
      done.fault = file.path + ": " + what;
      return done;
    };
    // One that was not finished when its power went, or begun and given up, holds nothing.
    if (!journal) {
      if (done.whole) continue;
      return faulty(journal.error().message().c_str());
    }
    if (journal->follows.checksum != crc32c(core->save())) {
      if (journal->records.empty() && done.whole) continue;
      return faulty("it does not follow from what is there");
    }
    done.serial = file.serial;
    for (const JournalRecord& record : journal->records) {
      if (seen) PACELINE_TRY(seen(record));
      if (Status status = core->redo(record.bytes); !status.ok())
        return fail(status.code(), "%s, record %llu: %s", file.path.c_str(),
                    static_cast<unsigned long long>(done.records), status.message().c_str());
      ++done.records;
    }
    if (journal->damaged) return faulty("it is damaged before its end");
    if (file.kind == KeptKind::kLapsed) return faulty("the disk took no more records then");
    done.whole = true;
    done.fault.clear();
  }
  return done;
}

}  // namespace paceline
