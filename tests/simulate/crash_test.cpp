// Workers die at any moment and come back with what was saved at another one, and servers go back
// to an older state: nothing is applied twice, and what is lost is counted.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/simulate/ledger.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::Books;
using test::kMinute;
using test::Ledger;

namespace {

constexpr size_t kWorkers = test::kLedgerWorkers;

// Kills, saves and restarts of workers, in an order drawn from the seed.
class Crashes {
 public:
  Crashes(Ledger* ledger, uint64_t seed) : ledger_(*ledger), random_(seed, 9) {}

  void at_event() {
    Fleet& fleet = ledger_.fleet();
    for (size_t i = 0; i < kWorkers; ++i)
      if (waits_[i] && fleet.runs(i)) look_at(i);
    if (calm_ || fleet.now() < next_at_) return;
    next_at_ = fleet.now() + static_cast<TimeUs>(random_.below(1'000'000));
    const size_t i = static_cast<size_t>(random_.below(kWorkers));
    if (!fleet.runs(i) || waits_[i] || fleet.worker(i).publication() == 0) return;
    // Half of the time the state on disk is of this very moment, else of an earlier one.
    if (random_.below(2) == 0) save(i);
    if (random_.below(2) == 0) kill(i);
  }

  // No more of them; true when everybody is back and knows what its state was worth.
  bool calm_down() {
    calm_ = true;
    at_event();
    return std::none_of(std::begin(waits_), std::end(waits_), [](bool waits) { return waits; });
  }

  uint32_t kept = 0, outdated = 0;

 private:
  void save(size_t i) {
    saved_[i] = ledger_.fleet().worker(i).save();
    saved_books_[i] = ledger_.books(i);
  }
  void kill(size_t i) {
    ledger_.fleet().stop_worker(i);
    ledger_.fleet().restart_worker(i, saved_[i]);
    ledger_.books(i) = saved_books_[i];
    waits_[i] = true;
  }
  // The new life's first Welcome has told whether its state is still true.
  void look_at(size_t i) {
    const WorkerCore& worker = ledger_.fleet().worker(i);
    if (worker.restored() == Restored::kWaiting || worker.generation() == 0) return;
    waits_[i] = false;
    kept += worker.restored() == Restored::kKept;
    if (worker.restored() == Restored::kKept) return;
    outdated += worker.restored() == Restored::kOutdated;
    // New books: whatever came before belongs to the old ones.
    ledger_.books(i) = Books();
    ledger_.books(i).first_sequence = ledger_.fleet().server().members()[i].next_sequence;
  }

  Ledger& ledger_;
  Random random_;
  TimeUs next_at_ = 0;
  bool calm_ = false;
  Bytes saved_[kWorkers];
  Books saved_books_[kWorkers];
  bool waits_[kWorkers] = {};
};

LoopbackFaults shaky_network() {
  LoopbackFaults faults;
  faults.delay_us = 2000;
  faults.jitter_us = 6000;
  faults.request_loss = 0.05;
  faults.reply_loss = 0.05;
  faults.duplication = 0.1;
  return faults;
}

}  // namespace

TEST_SUITE("simulate/crash") {
  TEST_CASE("a worker that is killed at any moment goes on with what it saved, or from zero") {
    for (const std::string pace : {"bsp", "asp", "compat"})
      for (const CodecId codec : {CodecId::kQ8, CodecId::kS1r}) {
        CAPTURE(pace);
        Ledger ledger({.pace = pace.c_str(),
                       .codec = codec,
                       .faults = shaky_network(),
                       .refused = 0.1,
                       .seed = test::seed()});
        Crashes crashes(&ledger, test::seed());
        REQUIRE(ledger.run(2 * kMinute, [&] {
          crashes.at_event();
          return ledger.fleet().now() >= kMinute;
        }));
        REQUIRE(ledger.run(kMinute, [&] { return crashes.calm_down(); }));
        ledger.settle();
        ledger.check_conserved();
        CHECK(crashes.kept >= 5);
        CHECK(crashes.outdated >= 5);
      }
  }

  TEST_CASE("a server that goes back takes updates with it, and nobody else's books suffer") {
    for (const std::string pace : {"bsp", "asp", "compat"})
      for (const CodecId codec : {CodecId::kQ8, CodecId::kS1r}) {
        CAPTURE(pace);
        Ledger ledger({.pace = pace.c_str(),
                       .codec = codec,
                       .faults = shaky_network(),
                       .seed = test::seed() + 1});
        Random random(test::seed(), 10);
        for (int crash = 0; crash < 6; ++crash) {
          const auto pass = [&] {
            const TimeUs until =
                ledger.fleet().now() + 200'000 + static_cast<TimeUs>(random.below(1'500'000));
            REQUIRE(ledger.run(kMinute, [&] { return ledger.fleet().now() >= until; }));
          };
          pass();
          const Bytes state = ledger.fleet().server().save();
          // Sometimes nothing has happened since; what was granted is then still true.
          if (random.below(4) != 0) pass();
          REQUIRE(ledger.fleet().restart_server(state, false).ok());
          ledger.fleet().server().set_observer(&ledger.applied());
          for (const Member& member : ledger.fleet().server().members())
            ledger.applied().roll_back(member);
        }
        ledger.settle();
        ledger.check_conserved();
      }
  }
}
