#include "runtime/privacy/mechanism.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/runtime/privacy/seeded_bytes.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::seeded_bytes;

namespace {

double norm_of(std::span<const double> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

// What the mechanism makes of `update` before its noise: the same bytes make the same noise of a
// zero update. float32 rounds twice, by what is given as `rounding`.
std::vector<double> without_noise(const PrivacySpec& privacy, std::vector<float> update,
                                  uint64_t stream, double* rounding) {
  const ElementRange all{0, update.size()};
  std::vector<float> zero(update.size());
  REQUIRE(make_private(privacy, {&all, 1}, seeded_bytes(test::seed(), stream), update).ok());
  REQUIRE(make_private(privacy, {&all, 1}, seeded_bytes(test::seed(), stream), zero).ok());
  std::vector<double> shortened(update.size());
  *rounding = 0;
  for (size_t i = 0; i < update.size(); ++i) {
    shortened[i] = static_cast<double>(update[i]) - static_cast<double>(zero[i]);
    *rounding +=
        (std::fabs(static_cast<double>(update[i])) + std::fabs(static_cast<double>(zero[i]))) *
        0x1p-24;
  }
  return shortened;
}

}  // namespace

TEST_SUITE("privacy/mechanism") {
  TEST_CASE("whatever an update is, it is no longer than clip under its noise; short ones stay") {
    Random random(test::seed(), 7);
    for (uint64_t trial = 0; trial < 100; ++trial) {
      const PrivacySpec privacy{.clip = std::ldexp(1.0, static_cast<int>(random.below(24)) - 12),
                                .noise = 0.01 + 10 * random.unit() * random.unit()};
      std::vector<float> update(1 + static_cast<size_t>(random.below(600)));
      const float size = std::ldexp(1.0f, static_cast<int>(random.below(100)) - 50);
      for (float& value : update) value = random.below(4) == 0 ? 0 : size * random.symmetric();
      std::vector<double> exact(update.begin(), update.end());
      const double norm = norm_of(exact);

      double rounding = 0;
      const std::vector<double> got = without_noise(privacy, update, trial, &rounding);
      const double step = privacy.clip * privacy.noise * 0x1p-20;
      CAPTURE(trial);
      CHECK(norm_of(got) <= privacy.clip + rounding);
      const double factor = norm > privacy.clip ? privacy.clip / norm : 1;
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(std::fabs(got[i] - factor * exact[i]) <= 1.01 * step + rounding);
    }
  }

  // The sum of n squared Gaussians has mean n and sd sqrt(2 n).
  TEST_CASE("the noise has sd clip x noise on each trained value, and none on others") {
    const PrivacySpec privacy{.clip = 0.25, .noise = 2};
    std::vector<float> update(40'000);
    update[5] = 3;
    const ElementRange trained[] = {{10, 1000}, {2000, 40'000}};
    REQUIRE(make_private(privacy, trained, seeded_bytes(test::seed()), update).ok());
    double sum = 0, squares = 0, count = 0;
    for (size_t i = 0; i < update.size(); ++i) {
      const auto value = static_cast<double>(update[i]);
      if (i < 10 || (i >= 1000 && i < 2000)) {
        CHECK(value == 0);
        continue;
      }
      ++count;
      sum += value / 0.5;
      squares += value * value / 0.25;
    }
    CHECK(std::fabs(sum) < 5 * std::sqrt(count));
    CHECK(std::fabs(squares - count) < 5 * std::sqrt(2 * count));
  }

  TEST_CASE("a value that is not finite is refused, and no noise is drawn") {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> update = {1, bad, 0};
      const ElementRange all{0, 3};
      bool drawn = false;
      const RandomBytes bytes = [&](std::span<std::byte>) { drawn = true; };
      CHECK(make_private({.clip = 1, .noise = 1}, {&all, 1}, bytes, update).code() ==
            Code::kInvalidArgument);
      CHECK_FALSE(drawn);
      CHECK(update[0] == 1);
    }
  }
}
