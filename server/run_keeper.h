// Keeps a run on disk: snapshots, and between them a journal of what must outlive the server before
// anybody is told of it. docs/reliability.md says what is promised, docs/decisions/0013 why so.
//
// One per daemon, single thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/state_store.h"
#include "server/run_folder.h"

namespace paceline {

// UINT64_MAX where the system does not say.
uint64_t free_disk_bytes(const std::string& folder);

struct RunKeeperOptions {
  std::string folder;
  // As the core's option. kOff: what came after the newest snapshot is lost by a crash.
  Recording journal = Recording::kRecovery;
  TimeUs snapshot_every_us = from_ms(60'000);
  // While the disk takes nothing. True: no update is taken. False: the run goes on, and grants are
  // not durable.
  bool waits_for_disk = true;
  // Where journals come from; a test's may lose bytes and fail.
  std::function<Result<std::unique_ptr<AppendFile>>(const std::string& path)> create =
      create_append_file;
  // Of the folder's disk.
  std::function<uint64_t(const std::string& folder)> free_bytes = free_disk_bytes;
};

class RunKeeper {
 public:
  // Errors: those of StateStore::open().
  static Result<std::unique_ptr<RunKeeper>> open(RunKeeperOptions options);

  // Brings `core`, which is new, to where the run was, and begins this life. Errors: kCorrupt where
  // a person has to decide; kInvalidArgument for another run's folder; kIo.
  Status begin(ServerCore* core);

  // After each event of the core, before its replies are sent.
  void record(ServerCore* core);
  // Something is recorded that may still be lost: what rests on it must not be said yet.
  bool unsynced() const;
  // Makes what is recorded durable. False: it can't be now; replies wait, tick() tries again.
  bool commit(ServerCore* core, TimeUs now);

  // Often: snapshots that are due, and tries after a failure.
  void tick(ServerCore* core, TimeUs now);
  // Ends this life in order, after ServerCore::suspend(). Errors: kIo.
  Status end(ServerCore* core);

  // No update is to be taken, because of trouble().
  bool stalled() const { return stalled_; }
  const std::string& trouble() const { return trouble_; }

 private:
  RunKeeper(RunKeeperOptions options, StateStore store)
      : options_(std::move(options)), store_(std::move(store)) {}
  bool journals() const { return options_.journal != Recording::kOff; }
  Status catch_up(ServerCore* core, const StateStore::Found& found);
  Status start_journal(ServerCore* core);
  bool has_replaced(uint64_t serial) const;
  bool snapshot(ServerCore* core, TimeUs now);
  bool begin_anew(ServerCore* core, TimeUs now);
  void give_up(ServerCore* core);
  Status lapse();
  void note_trouble(const Status& status);
  void prune();
  uint64_t kept_bytes_max(uint64_t kept) const;

  RunKeeperOptions options_;
  StateStore store_;
  std::optional<JournalWriter> writer_;  // none: off, or not since a failure
  uint64_t journal_serial_ = 0;
  uint64_t journal_bytes_max_ = 0;
  bool unwritten_ = false;  // records since a failure, in the core alone
  bool lapsed_ = false;
  bool stalled_ = false;
  std::string trouble_;
  bool said_prune_ = false;
  TimeUs snapshot_at_ = 0;
  TimeUs retry_at_ = 0;
  uint64_t snapshot_version_ = UINT64_MAX;  // where there is no journal
};

}  // namespace paceline
