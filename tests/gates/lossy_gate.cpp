// What does a bad network cost? Updates are taken back and sent again, so nothing but time.
#include <doctest/doctest.h>

#include <cstdio>

#include "tests/simulate/ledger.h"

using namespace paceline;
using test::Ledger;
using test::LedgerPlan;

namespace {

constexpr uint64_t kStepsOfARun = 12'800;
constexpr uint64_t kStepsBetweenLooks = 30;
constexpr uint64_t kSeeds[] = {1, 2, 3};

// Mean loss over the last sixth of the run's steps, all workers' together.
double loss_of(LedgerPlan plan, const char* what) {
  // Updates are divided by the weights of all members in this pace, whoever contributes: what a
  // refusal takes from one exchange the next one brings, at the same weight.
  plan.pace = "asp";
  plan.codec = CodecId::kS1r;
  plan.slowest_step_us = 5'000;
  plan.momentum = 0;
  Ledger ledger(plan);
  double sum = 0;
  uint64_t looks = 0, next = kStepsOfARun * 5 / 6;
  REQUIRE(ledger.run(60 * test::kMinute, [&] {
    uint64_t steps = 0;
    for (size_t i = 0; i < test::kLedgerWorkers; ++i)
      if (ledger.fleet().runs(i)) steps += ledger.fleet().worker(i).stats().steps;
    if (steps < next) return false;
    next += kStepsBetweenLooks;
    ++looks;
    sum += test::toy_loss({.workers = test::kLedgerWorkers, .hidden = test::kLedgerHidden},
                          ledger.fleet().server().published());
    return steps >= kStepsOfARun;
  }));
  ledger.settle();
  double worst = 0;
  for (size_t i = 0; i < test::kLedgerWorkers; ++i) worst = std::max(worst, ledger.imbalance(i));
  CHECK((worst <= 1e-5) == plan.unsend);
  const double loss = sum / static_cast<double>(looks);
  std::printf("%-24s seed %llu: loss %.4f, books off by %.1e\n", what,
              static_cast<unsigned long long>(plan.seed), loss, worst);
  std::fflush(stdout);
  return loss;
}

}  // namespace

TEST_SUITE("gates/lossy") {
  TEST_CASE("a run with a fifth lost, doubled or refused ends as the lossless one, by un-send") {
    const double lossless = loss_of({.seed = 1}, "lossless");
    for (const uint64_t seed : kSeeds) {
      LedgerPlan plan{.faults = test::bad_network(), .refused = 0.2, .seed = seed};
      const double kept = loss_of(plan, "lossy, taken back");
      plan.unsend = false;
      const double forgotten = loss_of(plan, "lossy, forgotten");
      CHECK(kept <= 1.05 * lossless);
      CHECK(kept >= 0.95 * lossless);
      CHECK(forgotten >= 1.2 * lossless);
    }
  }
}
