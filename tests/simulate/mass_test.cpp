// Gradient mass is conserved per worker, whatever the network does:
// applied + residual + counted losses = produced (un-send, verdicts, sequences).
#include <doctest/doctest.h>

#include "tests/simulate/ledger.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::bad_network;
using test::kLedgerWorkers;
using test::kMinute;
using test::Ledger;

namespace {

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

  TEST_CASE("without un-send gradient is lost") {
    Ledger ledger({.codec = CodecId::kS1r,
                   .faults = bad_network(),
                   .refused = 0.2,
                   .unsend = false,
                   .seed = test::seed() + 2});
    REQUIRE(ledger.run(4 * kMinute, [&] { return ledger.fleet().server().version() >= 30; }));
    ledger.settle();
    for (size_t i = 0; i < kLedgerWorkers; ++i) CHECK(ledger.imbalance(i) > 1e-3);
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
