#include "runtime/train/math.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

// Distance in units of the last place of `exact`, rounded to float.
double ulps(float value, double exact) {
  const float nearest = static_cast<float>(exact);
  const double ulp =
      static_cast<double>(std::nextafter(nearest, INFINITY)) - static_cast<double>(nearest);
  return std::abs(static_cast<double>(value) - exact) / ulp;
}

}  // namespace

TEST_SUITE_BEGIN("train/math");

TEST_CASE("exp_nonpositive: within 2 ulp of libm in double") {
  Random random(test::seed(), 1);
  double worst = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    const float x = static_cast<float>(-87.0 * random.unit() * (i % 2 ? random.unit() : 1.0));
    worst = std::max(worst, ulps(exp_nonpositive(x), std::exp(static_cast<double>(x))));
  }
  CHECK(worst <= 2.0);
  CHECK(exp_nonpositive(0.0f) == 1.0f);
}

TEST_CASE("exp_nonpositive: +0 far below, NaN for NaN") {
  CHECK(exp_nonpositive(-87.5f) == 0.0f);
  CHECK(exp_nonpositive(-1e30f) == 0.0f);
  CHECK(exp_nonpositive(-std::numeric_limits<float>::infinity()) == 0.0f);
  CHECK(std::isnan(exp_nonpositive(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("log_positive: within 1 ulp of libm in double") {
  Random random(test::seed(), 2);
  double worst = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    const float x = i % 2 ? static_cast<float>(1.0 + random.unit() * 1e3)
                          : std::bit_cast<float>(static_cast<uint32_t>(
                                0x00800000u + random.below(0x7F800000u - 0x00800000u)));
    worst = std::max(worst, ulps(log_positive(x), std::log(static_cast<double>(x))));
  }
  CHECK(worst <= 1.0);
  CHECK(log_positive(1.0f) == 0.0f);
  CHECK(std::isnan(log_positive(std::numeric_limits<float>::quiet_NaN())));
}

TEST_SUITE_END();

}  // namespace paceline
