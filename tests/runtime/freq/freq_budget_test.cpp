// The choice against the paper's bound, written down a second time with pow().
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/random.h"
#include "runtime/freq/freq.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

struct World {
  double slope, divergence, smoothness;  // rho, delta, beta
  double rate, step_us, exchange_us, left_us;
};

double bound(const World& w, double tau) {
  constexpr double kPhi = 5e-5;
  const double h = w.divergence / w.smoothness * (std::pow(w.rate * w.smoothness + 1, tau) - 1) -
                   w.rate * w.divergence * tau;
  const double steps = w.left_us * tau / (w.step_us * tau + w.exchange_us);
  return (1 + std::sqrt(1 + 4 * steps * steps * kPhi * w.slope * w.rate * h / tau)) /
             (2 * steps * w.rate * kPhi) +
         w.slope * h;
}

// Ten rounds as such a world shows them: a mean update of constant length, a loss that moves with
// it.
uint32_t chosen(const World& w, uint32_t tau) {
  const std::unique_ptr<Freq> freq = make_freq(format_text("budget:%u", tau)).value();
  const double way = w.rate * tau;
  constexpr double kMeanNorm = 0.01;
  FleetEvaluation evaluation;
  evaluation.loss = 5;
  freq->observe(evaluation);
  for (int i = 0; i < 10; ++i) {
    RoundFacts round;
    round.workers = 4;
    round.tau = tau;
    round.mean_norm = kMeanNorm;
    round.spread = w.divergence * way;
    round.turn = w.smoothness * kMeanNorm * way;
    round.rate = w.rate;
    round.step_us = w.step_us;
    round.exchange_us = w.exchange_us;
    round.left_us = w.left_us;
    freq->observe_round(round);
    evaluation.loss -= w.slope * kMeanNorm;
    freq->observe(evaluation);
  }
  return freq->tau();
}

}  // namespace

TEST_SUITE("freq/budget") {
  TEST_CASE("it chooses the tau at which the bound is lowest, unless little is gained") {
    int changed = 0;
    for (uint64_t run = 0; run < 300; ++run) {
      Random random(test::seed(), run);
      const auto spread = [&](double low, double high) {
        return low * std::pow(high / low, random.unit());
      };
      const World world = {spread(0.1, 10),  spread(0.01, 10), spread(0.1, 20),  spread(1e-3, 0.1),
                           spread(1e3, 1e5), spread(1e3, 1e7), spread(1e7, 1e10)};
      const auto tau = static_cast<uint32_t>(1 + random.below(20));
      const uint32_t ours = chosen(world, tau);
      const uint32_t largest = std::max(tau, std::min(10 * tau, 64u));
      double lowest = INFINITY;
      for (uint32_t t = 1; t <= largest; ++t) lowest = std::min(lowest, bound(world, t));
      CHECK(bound(world, ours) <= lowest / 0.979);
      if (ours != tau) ++changed;
    }
    CHECK(changed > 150);
  }

  TEST_CASE("dear exchanges ask for more local steps, boards that differ for fewer") {
    const World world = {1, 0.1, 1, 0.01, 5e3, 5e3, 1e9};
    World dear = world, apart = world;
    dear.exchange_us = 5e6;
    apart.divergence = 10;
    CHECK(chosen(dear, 4) > chosen(world, 4));
    CHECK(chosen(apart, 16) < chosen(world, 16));
  }
}
