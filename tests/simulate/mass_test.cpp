// Gradient mass is conserved per worker, whatever the network does:
// applied + residual + counted losses = produced (un-send, verdicts, sequences).
#include <doctest/doctest.h>

#include "tests/simulate/ledger.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::bad_network;
using test::kMinute;
using test::Ledger;

namespace {

constexpr size_t kWorkers = test::kLedgerWorkers;
constexpr uint64_t kStepsOfARun = 1800;

void check_conserved(const test::LedgerPlan& plan) {
  Ledger ledger(plan);
  REQUIRE(ledger.run(4 * kMinute, [&] { return ledger.fleet().server().version() >= 30; }));
  ledger.settle();
  ledger.check_conserved();
}

}  // namespace

TEST_SUITE("simulate/mass") {
  TEST_CASE("without faults every bit of gradient is applied or in the residual") {
    for (const char* pace : {"bsp", "asp", "ssp:2", "compat"})
      check_conserved({.pace = pace, .codec = CodecId::kS1r, .seed = test::seed()});
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kQ8, CodecId::kS1})
      check_conserved({.pace = "compat", .codec = codec, .seed = test::seed()});
  }

  TEST_CASE("20 % of requests and replies lost, doubled or refused: no gradient is lost") {
    const auto bad = [](const char* pace, CodecId codec) {
      check_conserved({.pace = pace,
                       .codec = codec,
                       .faults = bad_network(),
                       .refused = 0.2,
                       .seed = test::seed() + 1});
    };
    for (const char* pace : {"bsp", "asp", "ssp:2", "compat"}) bad(pace, CodecId::kS1r);
    bad("compat", CodecId::kQ8);
  }

  TEST_CASE("a lossy run stays near the lossless one with un-send, and drifts away without") {
    // Mean loss over the last sixth of a run of so many steps, however often they were heard of.
    const auto loss_of = [](LoopbackFaults faults, double refused, bool unsend, uint64_t seed) {
      Ledger ledger({.pace = "bsp",
                     .codec = CodecId::kS1r,
                     .faults = faults,
                     .slowest_step_us = 5'000,
                     .momentum = 0,
                     .refused = refused,
                     .unsend = unsend,
                     .seed = seed});
      double sum = 0;
      uint64_t looks = 0, next = kStepsOfARun * 5 / 6;
      REQUIRE(ledger.run(20 * kMinute, [&] {
        uint64_t steps = 0;
        for (size_t i = 0; i < kWorkers; ++i)
          if (ledger.fleet().runs(i)) steps += ledger.fleet().worker(i).stats().steps;
        if (steps < next) return false;
        next += 30;
        ++looks;
        sum += test::toy_loss({.workers = kWorkers, .hidden = 600},
                              ledger.fleet().server().published());
        return steps >= kStepsOfARun;
      }));
      ledger.settle();
      double worst = 0;
      for (size_t i = 0; i < kWorkers; ++i) worst = std::max(worst, ledger.imbalance(i));
      CHECK((worst <= 1e-5) == unsend);
      return sum / static_cast<double>(looks);
    };
    const double lossless = loss_of({.delay_us = 500}, 0, true, 1);
    double kept = 0, forgotten = 0;
    for (uint64_t seed = test::seed(); seed < test::seed() + 2; ++seed) {
      kept += loss_of(bad_network(), 0.2, true, seed) / 2;
      forgotten += loss_of(bad_network(), 0.2, false, seed) / 2;
    }
    CAPTURE(lossless);
    CAPTURE(kept);
    CAPTURE(forgotten);
    CHECK(kept < 1.25 * lossless);
    CHECK(kept < forgotten);
  }

  TEST_CASE("six late pushes in a row, then accepted: what they carried arrives or is counted") {
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kS1r}) {
      Ledger ledger({.pace = "bsp", .codec = codec, .seed = test::seed() + 3});
      REQUIRE(ledger.run(kMinute, [&] { return ledger.fleet().server().version() >= 10; }));
      ledger.fleet().stop_worker(1);
      ledger.fleet().stop_worker(2);
      WorkerCore& worker = ledger.fleet().worker(0);
      const uint64_t before = worker.stats().exchanges;
      ledger.refuse_next(6);
      REQUIRE(ledger.run(kMinute, [&] { return worker.stats().refused_late == 6; }));
      CHECK(worker.stats().exchanges <= before + 1);
      const uint64_t accepted = worker.stats().exchanges;
      REQUIRE(ledger.run(kMinute, [&] { return worker.stats().exchanges > accepted; }));
      CHECK(ledger.imbalance(0) <= 1e-5);
    }
  }
}
