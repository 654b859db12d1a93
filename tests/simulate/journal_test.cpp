// The server dies at any moment: before what it did is written, between write and sync, between
// sync and reply. The next life goes on in the same generation, nothing that a worker was told is
// gone, and nothing is applied twice.
#include "runtime/base/journal.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/checksum.h"
#include "tests/simulate/ledger.h"
#include "tests/support/memory_file.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::kMinute;
using test::Ledger;
using test::LedgerPlan;
using test::MemoryDisk;
using test::MemoryFile;

namespace {

// Writes down what a simulated server does, remembers what its state was at each record, and dies
// now and then.
class Scribe {
 public:
  explicit Scribe(uint64_t seed) : random_(seed, 21) {}

  void begin(ServerCore& server) {
    snapshot_ = server.save();
    disk_ = {};
    writer_ =
        JournalWriter::start(std::make_unique<MemoryFile>(&disk_), {1, crc32c(snapshot_)}).value();
    states_ = {snapshot_};
    synced_ = 0;
  }

  // As FleetOptions::before_replies.
  bool write(ServerCore& server) {
    if (!writer_) begin(server);
    const Bytes record = server.take_record();
    if (record.empty()) return true;
    const uint64_t fate = dies_ ? random_.below(40) : 99;
    if (fate == 0) return end_life();
    REQUIRE(writer_->append(record, 0).ok());
    states_.push_back(server.save());
    if (fate == 1) return end_life();
    REQUIRE(writer_->sync().ok());
    synced_ = states_.size() - 1;
    if (fate == 2) return end_life();
    if (random_.below(20) == 0) turn_page(server);
    return true;
  }

  // What the next life finds, before it goes on.
  std::unique_ptr<ServerCore> recover(ServerOptions options) {
    const Bytes file = disk_.after_cut(random_.unit());
    const Journal journal = parse_journal(file).value();
    CHECK(journal.records.size() >= synced_);
    CHECK_FALSE(journal.damaged);
    options.session_seed += 1 + deaths_;
    std::unique_ptr<ServerCore> core = ServerCore::make(std::move(options)).value();
    REQUIRE(core->load(snapshot_).ok());
    for (size_t i = 0; i < journal.records.size(); ++i) {
      REQUIRE(core->redo(journal.records[i].bytes).ok());
      const bool same = core->save() == states_[i + 1];
      CHECK_MESSAGE(same, "record " << i);
    }
    dead_ = false;
    begin(*core);
    core->resume();
    return core;
  }

  bool dead() const { return dead_; }
  void stop_dying() { dies_ = false; }
  uint32_t deaths() const { return deaths_; }

 private:
  bool end_life() {
    dead_ = true;
    ++deaths_;
    return false;
  }
  // A snapshot of a server that goes on is where its journal leads to.
  void turn_page(ServerCore& server) {
    REQUIRE(writer_->append(server.take_record(true), 0).ok());
    std::unique_ptr<ServerCore> other = ServerCore::make(server.options()).value();
    REQUIRE(other->load(snapshot_).ok());
    const Journal journal = parse_journal(disk_.bytes).value();
    for (const JournalRecord& record : journal.records) REQUIRE(other->redo(record.bytes).ok());
    const bool same = other->save() == server.save();
    CHECK(same);
    begin(server);
  }

  Random random_;
  Bytes snapshot_;
  MemoryDisk disk_;
  std::optional<JournalWriter> writer_;
  std::vector<Bytes> states_;  // at the snapshot, and at each record
  size_t synced_ = 0;          // records
  bool dies_ = true;
  bool dead_ = false;
  uint32_t deaths_ = 0;
};

struct Case {
  const char* pace;
  CodecId codec;
  Recording recording;
};

}  // namespace

TEST_SUITE("simulate/journal") {
  TEST_CASE("a server that dies at any moment loses nothing that was acknowledged") {
    for (const Case& each : {Case{"bsp", CodecId::kQ8, Recording::kRecovery},
                             Case{"compat", CodecId::kS1r, Recording::kPayloads},
                             Case{"asp", CodecId::kS1r, Recording::kRecovery},
                             Case{"ssp:3+stale", CodecId::kRaw32, Recording::kRecovery},
                             Case{"fedbuff", CodecId::kQ8, Recording::kPayloads}}) {
      CAPTURE(each.pace);
      Scribe scribe(test::seed());
      LedgerPlan plan{.pace = each.pace,
                      .codec = each.codec,
                      .faults = {.delay_us = 2000,
                                 .jitter_us = 6000,
                                 .request_loss = 0.05,
                                 .reply_loss = 0.05,
                                 .duplication = 0.1},
                      .refused = 0.05,
                      .seed = test::seed()};
      plan.recording = each.recording;
      plan.before_replies = [&](ServerCore& server) { return scribe.write(server); };
      Ledger ledger(plan);
      Fleet& fleet = ledger.fleet();
      const auto come_back = [&] {
        if (!scribe.dead()) return;
        fleet.replace_server(scribe.recover(fleet.server().options()));
        fleet.server().set_observer(&ledger.applied());
        for (const Member& member : fleet.server().members()) ledger.applied().forget(member);
      };
      REQUIRE(ledger.run(10 * kMinute, [&] {
        come_back();
        return scribe.deaths() >= 25;
      }));
      come_back();
      scribe.stop_dying();
      ledger.settle();
      ledger.check_conserved();
      CHECK(fleet.server().generation() == 1);
      for (size_t i = 0; i < test::kLedgerWorkers; ++i)
        CHECK(fleet.worker(i).stats().rolled_back == 0);
    }
  }
}
