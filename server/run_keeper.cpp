#include "server/run_keeper.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/log.h"

namespace paceline {

namespace {

constexpr TimeUs kRetryUs = from_ms(1000);
// A journal that is longer gets a snapshot sooner: it is read as a whole at a start.
constexpr uint64_t kJournalBytesMin = uint64_t{64} << 20;
// On a small disk, too: what it fills can't be removed before another snapshot is there, which
// needs space itself. Two journals, two snapshots and a third that is being written fit.
constexpr uint64_t kJournalShareOfFree = 4;
// All that is kept for replay: at most so much, and so much of what the disk has free.
constexpr uint64_t kKeptBytesMax = 10'000'000'000;
constexpr uint64_t kKeptShareOfFree = 10;

int64_t unix_now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The run whose backup this was may have gone on, and through generations of its own.
uint64_t restored_by(const std::string& folder) {
  const Result<Bytes> bytes = read_file(folder + "/" + kRestoredName, 64);
  uint64_t by = 1;
  if (bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes->data());
    std::from_chars(text, text + bytes->size(), by);
  }
  return std::max<uint64_t>(by, 1);
}

}  // namespace

uint64_t free_disk_bytes(const std::string& folder) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(folder, error);
  return error ? UINT64_MAX : space.available;
}

Result<std::unique_ptr<RunKeeper>> RunKeeper::open(RunKeeperOptions options) {
  PACELINE_ASSIGN(StateStore store, StateStore::open(options.folder, kStateName));
  return std::unique_ptr<RunKeeper>(new RunKeeper(std::move(options), std::move(store)));
}

Status RunKeeper::begin(ServerCore* core) {
  const char* folder = options_.folder.c_str();
  Result<std::optional<StateStore::Found>> found = store_.load();
  // Starting afresh over a run that was there is a decision for a person.
  if (!found && found.error().code() == Code::kCorrupt)
    return fail(Code::kCorrupt, "%s; remove the folder to start the run afresh",
                found.error().message().c_str());
  if (!found) return fail(std::move(found).error());
  if (*found) {
    PACELINE_TRY(catch_up(core, **found));
  } else if (const std::optional<std::string> orphan = journal_with_records(options_.folder)) {
    return fail(Code::kCorrupt,
                "%s follows a snapshot that is gone; remove the folder to start the run afresh",
                orphan->c_str());
  }
  const std::string& text = core->options().run_text;
  PACELINE_TRY(write_file_atomically(options_.folder + "/run.toml", std::as_bytes(std::span(text)),
                                     FileAccess::kOwner));
  // Before anything is granted.
  if (journals()) {
    if (Status status = start_journal(core); !status.ok())
      return fail(status.code(), "%s: %s", folder, status.message().c_str());
  } else {
    PACELINE_TRY(store_.save(core->save(), false));
    prune();
  }
  // The generation that it asked for is on disk.
  ::unlink((options_.folder + "/" + kRestoredName).c_str());
  core->resume();
  core->set_durable(journals());
  return {};
}

// To where the last life was, as far as that is known.
Status RunKeeper::catch_up(ServerCore* core, const StateStore::Found& found) {
  const char* folder = options_.folder.c_str();
  if (Status status = core->load(found.state); !status.ok())
    return fail(status.code(), "%s: %s", folder, status.message().c_str());
  Redone redone;
  redone.whole = true;
  if (!found.exact) {
    Result<Redone> done = redo_journals(options_.folder, found.serial, core);
    if (!done)
      return fail(
          done.error().code(),
          "%s; remove the journals to go on from the snapshot, or take the program's version "
          "that wrote them",
          done.error().message().c_str());
    redone = std::move(*done);
  }
  for (const KeptFile& file : kept_files(options_.folder)) store_.skip_to(file.serial);
  if (!redone.whole) core->raise_generation(restored_by(options_.folder));
  log_info(
      "going on from %s: generation %llu, publication %llu, %llu records after snapshot %llu%s%s",
      folder, static_cast<unsigned long long>(core->generation()),
      static_cast<unsigned long long>(core->publication()),
      static_cast<unsigned long long>(redone.records),
      static_cast<unsigned long long>(found.serial),
      redone.whole ? "" : "; what came after them is lost: ", redone.fault.c_str());
  return {};
}

Status RunKeeper::start_journal(ServerCore* core) {
  static_cast<void>(core->take_record(true));  // the snapshot has it
  const Bytes state = core->save();
  const SnapshotId id{store_.serial() + 1, crc32c(state)};
  const std::string path = kept_path(options_.folder, id.serial, KeptKind::kJournal);
  // The journal first: a snapshot without one is of a life that kept none.
  const auto started = [&]() -> Result<JournalWriter> {
    PACELINE_ASSIGN(std::unique_ptr<AppendFile> file, options_.create(path));
    PACELINE_ASSIGN(JournalWriter writer, JournalWriter::start(std::move(file), id));
    PACELINE_TRY(store_.save(state, false));
    return writer;
  };
  Result<JournalWriter> writer = started();
  if (!writer) {
    ::unlink(path.c_str());
    return fail(std::move(writer).error());
  }
  writer_ = std::move(*writer);
  journal_serial_ = id.serial;
  journal_bytes_max_ = std::min(
      std::max<uint64_t>(kJournalBytesMin, state.size()),
      std::max<uint64_t>(options_.free_bytes(options_.folder) / kJournalShareOfFree, state.size()));
  if (options_.journal == Recording::kPayloads &&
      ::link(store_.path(id.serial).c_str(),
             kept_path(options_.folder, id.serial, KeptKind::kSnapshot).c_str()) != 0)
    log_warning("snapshot %llu can't be kept for replay: %s",
                static_cast<unsigned long long>(id.serial), std::strerror(errno));
  prune();
  return {};
}

void RunKeeper::record(ServerCore* core) {
  const Bytes record = core->take_record();
  if (record.empty()) return;
  if (!writer_) {
    unwritten_ = true;
  } else if (Status status = writer_->append(record, unix_now_us()); !status.ok()) {
    unwritten_ = true;
    note_trouble(status);
  }
}

bool RunKeeper::unsynced() const {
  if (!journals() || lapsed_) return false;
  return unwritten_ || (writer_ && !writer_->synced());
}

bool RunKeeper::commit(ServerCore* core, TimeUs now) {
  if (!unsynced()) return true;
  if (stalled_) return false;
  if (writer_ && !unwritten_) {
    const Status status = writer_->sync();
    if (status.ok()) return true;
    note_trouble(status);
  }
  return begin_anew(core, now) || lapsed_;
}

// A file that failed once is not trusted again: what the core holds goes into a new snapshot.
bool RunKeeper::begin_anew(ServerCore* core, TimeUs now) {
  writer_.reset();
  retry_at_ = now + kRetryUs;
  if (Status status = start_journal(core); !status.ok()) {
    note_trouble(status);
    if (!stalled_ && !lapsed_) give_up(core);
    return false;
  }
  unwritten_ = stalled_ = lapsed_ = false;
  trouble_.clear();
  snapshot_at_ = now + options_.snapshot_every_us;
  core->set_durable(true);
  log_info("snapshot %llu and a new journal are written: what is granted is durable",
           static_cast<unsigned long long>(journal_serial_));
  return true;
}

void RunKeeper::give_up(ServerCore* core) {
  if (!options_.waits_for_disk) {
    const Status marked = lapse();
    if (marked.ok()) {
      lapsed_ = true;
      core->set_durable(false);
      log_error("the run goes on, and what is granted from now on is lost by a crash");
      return;
    }
    note_trouble(marked);
  }
  stalled_ = true;
  log_error("no update is taken until the disk takes the journal again; workers wait");
}

// The next life must not take this journal for the whole truth. A rename needs no space.
Status RunKeeper::lapse() {
  const std::string from = kept_path(options_.folder, journal_serial_, KeptKind::kJournal);
  const std::string to = kept_path(options_.folder, journal_serial_, KeptKind::kLapsed);
  if (std::rename(from.c_str(), to.c_str()) != 0)
    return fail(Code::kIo, "rename %s: %s", from.c_str(), std::strerror(errno));
  return sync_folder(to);
}

void RunKeeper::note_trouble(const Status& status) {
  if (trouble_.empty()) log_error("the journal failed: %s", status.message().c_str());
  trouble_ = status.message();
}

bool RunKeeper::snapshot(ServerCore* core, TimeUs now) {
  snapshot_at_ = now + options_.snapshot_every_us;
  // What nobody depends on comes along, so that the old journal leads to the new snapshot.
  const Bytes rest = core->take_record(true);
  Status status = writer_->append(rest, unix_now_us());
  if (status.ok()) status = writer_->sync();
  if (!status.ok()) {
    unwritten_ = true;
    note_trouble(status);
    return begin_anew(core, now);
  }
  status = start_journal(core);
  if (status.ok()) return true;
  log_error("the snapshot failed: %s", status.message().c_str());
  // It may be there all the same; then the old journal is not what follows it.
  unwritten_ = has_replaced(store_.serial() + 1);
  return unwritten_ && begin_anew(core, now);
}

bool RunKeeper::has_replaced(uint64_t serial) const {
  const Result<StateStore::Found> found = StateStore::read(store_.path(serial));
  return found && found->serial == serial;
}

void RunKeeper::tick(ServerCore* core, TimeUs now) {
  if (!journals()) {
    if (now < snapshot_at_ || core->version() == snapshot_version_) return;
    snapshot_at_ = now + options_.snapshot_every_us;
    snapshot_version_ = core->version();
    if (Status status = store_.save(core->save(), false); !status.ok())
      log_error("the snapshot failed, the run goes on without: %s", status.message().c_str());
    return;
  }
  if (!writer_) {
    if (now >= retry_at_) begin_anew(core, now);
    return;
  }
  if (snapshot_at_ == 0) snapshot_at_ = now + options_.snapshot_every_us;
  const bool is_due = now >= snapshot_at_ && writer_->records() > 0;
  if (is_due || writer_->bytes() > journal_bytes_max_) snapshot(core, now);
}

Status RunKeeper::end(ServerCore* core) {
  if (writer_) {
    Status status = writer_->append(core->take_record(true), unix_now_us());
    if (status.ok()) status = writer_->sync();
    if (!status.ok()) note_trouble(status);
  }
  PACELINE_TRY(store_.save(core->save(), true));
  return {};
}

uint64_t RunKeeper::kept_bytes_max(uint64_t kept) const {
  const uint64_t free = options_.free_bytes(options_.folder);
  if (free == UINT64_MAX) return kKeptBytesMax;
  return std::min<uint64_t>(kKeptBytesMax, (free + kept) / kKeptShareOfFree);
}

// What recovery can't need any more goes; for replay, only what is above the cap, oldest first.
void RunKeeper::prune() {
  const uint64_t oldest_needed =
      store_.older_serial() > 0 ? store_.older_serial() : store_.serial();
  const std::vector<KeptFile> files = kept_files(options_.folder);
  uint64_t kept = 0;
  for (const KeptFile& file : files) kept += file.bytes;
  const uint64_t bytes_max = options_.journal == Recording::kPayloads ? kept_bytes_max(kept) : 0;
  for (const KeptFile& file : files) {
    if (file.serial >= oldest_needed || kept <= bytes_max) break;
    if (::unlink(file.path.c_str()) != 0) {
      log_warning("%s can't be removed: %s", file.path.c_str(), std::strerror(errno));
      continue;
    }
    kept -= file.bytes;
    if (bytes_max > 0 && !std::exchange(said_prune_, true))
      log_info("journals are kept up to %.3g GB: the oldest go",
               static_cast<double>(bytes_max) / 1e9);
  }
}

}  // namespace paceline
