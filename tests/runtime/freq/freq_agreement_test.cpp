// tau over made-up agreements of the updates.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/freq/freq.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

RoundFacts round_of(uint32_t tau, double cross, double self, uint32_t workers = 4) {
  RoundFacts round;
  round.workers = workers;
  round.tau = tau;
  round.cross = cross;
  round.self = self;
  return round;
}

uint32_t tau_after(Freq& freq, int rounds, double cross, double self, uint32_t workers = 4) {
  for (int i = 0; i < rounds; ++i) freq.observe_round(round_of(freq.tau(), cross, self, workers));
  return freq.tau();
}

}  // namespace

TEST_SUITE("freq/agreement") {
  TEST_CASE("updates that agree double tau every ten rounds, up to 64") {
    const std::unique_ptr<Freq> freq = make_freq("agreement:4").value();
    CHECK(tau_after(*freq, 9, 0.7, 0.9) == 4);
    CHECK(tau_after(*freq, 1, 0.7, 0.9) == 8);
    CHECK(tau_after(*freq, 10, 0.7, 0.9) == 16);
    CHECK(tau_after(*freq, 100, 0.7, 0.9) == 64);
  }

  TEST_CASE("updates that pull apart halve tau every ten rounds, down to 1") {
    const std::unique_ptr<Freq> freq = make_freq("agreement:16").value();
    CHECK(tau_after(*freq, 10, 0.1, 0.9) == 8);
    CHECK(tau_after(*freq, 10, -0.2, 0.9) == 4);
    CHECK(tau_after(*freq, 100, 0.1, 0.9) == 1);
  }

  TEST_CASE("noise is no drift: what counts is agreement between workers against within one") {
    const std::unique_ptr<Freq> noisy = make_freq("agreement:4").value();
    CHECK(tau_after(*noisy, 10, 0.2, 0.25) == 8);
    const std::unique_ptr<Freq> only_noise = make_freq("agreement:4").value();
    CHECK(tau_after(*only_noise, 50, 0.001, 0.002) == 4);
  }

  TEST_CASE("between the two thresholds, and with two workers, tau stays") {
    const std::unique_ptr<Freq> freq = make_freq("agreement:4").value();
    CHECK(tau_after(*freq, 100, 0.36, 0.9) == 4);
    CHECK(tau_after(*freq, 100, 0.9, 0.9, 2) == 4);
  }

  TEST_CASE("rounds that ran at another tau are not counted") {
    const std::unique_ptr<Freq> freq = make_freq("agreement:4").value();
    for (int i = 0; i < 100; ++i) freq->observe_round(round_of(32, 0.9, 0.9));
    CHECK(freq->tau() == 4);
  }

  TEST_CASE("a single odd round changes nothing; whatever comes, ten rounds lie between changes") {
    for (uint64_t run = 0; run < 200; ++run) {
      Random random(test::seed(), run);
      const std::unique_ptr<Freq> freq = make_freq("agreement:8").value();
      int since = 0;
      for (int i = 0; i < 200; ++i) {
        const uint32_t before = freq->tau();
        freq->observe_round(round_of(before, 2 * random.unit() - 1, random.unit()));
        ++since;
        if (freq->tau() == before) continue;
        CHECK(since >= 10);
        CHECK((freq->tau() == 2 * before || 2 * freq->tau() == before));
        since = 0;
      }
    }
  }
}
