#include "runtime/privacy/discrete_gaussian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/runtime/privacy/seeded_bytes.h"
#include "tests/support/seed.h"

using namespace paceline;

TEST_SUITE("privacy/discrete_gaussian") {
  // Pearson's statistic of `cells` cells is about Gaussian around cells - 1, sd sqrt(2 (cells -
  // 1)).
  TEST_CASE("small sds: each number comes as often as exp(-x^2 / 2 s^2) says, within 6 sd") {
    for (const int sd_log2 : {0, 1, 2, 3}) {
      const double sd = 1 << sd_log2;
      const RandomBytes bytes = test::seeded_bytes(test::seed(), static_cast<uint64_t>(sd_log2));
      DiscreteGaussian gaussian(sd_log2, bytes);
      constexpr int kDraws = 60'000;
      std::map<int64_t, double> counts;
      for (int i = 0; i < kDraws; ++i) ++counts[gaussian.draw()];
      double total = 0;
      for (int x = -200; x <= 200; ++x) total += std::exp(-x * x / (2 * sd * sd));
      double pearson = 0, cells = 0;
      for (int x = -200; x <= 200; ++x) {
        const double expected = kDraws * std::exp(-x * x / (2 * sd * sd)) / total;
        if (expected < 20) continue;
        ++cells;
        pearson += (counts[x] - expected) * (counts[x] - expected) / expected;
      }
      CAPTURE(sd_log2);
      CHECK(std::fabs(pearson - (cells - 1)) < 6 * std::sqrt(2 * (cells - 1)));
    }
  }

  // Kolmogorov and Smirnov: above 2.2 / sqrt(n) once in 8,000 seeds.
  TEST_CASE("a large sd: the shape is the continuous Gaussian's") {
    const RandomBytes bytes = test::seeded_bytes(test::seed());
    DiscreteGaussian gaussian(20, bytes);
    std::vector<double> drawn(30'000);
    for (double& value : drawn) value = static_cast<double>(gaussian.draw()) * 0x1p-20;
    std::ranges::sort(drawn);
    double farthest = 0;
    for (size_t i = 0; i < drawn.size(); ++i) {
      const double below = std::erfc(-drawn[i] / std::sqrt(2.0)) / 2;
      const auto count = static_cast<double>(drawn.size());
      farthest = std::max({farthest, std::fabs(below - static_cast<double>(i) / count),
                           std::fabs(below - static_cast<double>(i + 1) / count)});
    }
    CHECK(farthest < 2.2 / std::sqrt(static_cast<double>(drawn.size())));
  }

  TEST_CASE("the same bytes give the same numbers, on every machine") {
    const RandomBytes bytes = test::seeded_bytes(1);
    DiscreteGaussian gaussian(20, bytes);
    for (const int64_t expected : {-118640, -2223923, -1497643, 2316755})
      CHECK(gaussian.draw() == expected);
  }
}
