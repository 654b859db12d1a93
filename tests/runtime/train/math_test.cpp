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

TEST_CASE("sigmoid_of, tanh_of: within 4 ulp of libm in double; NaN for NaN") {
  Random random(test::seed(), 3);
  double worst_sigmoid = 0.0, worst_tanh = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    const float x = static_cast<float>((random.unit() - 0.5) * (i % 2 ? 80.0 : 2.0));
    const double exact = static_cast<double>(x);
    worst_sigmoid = std::max(worst_sigmoid, ulps(sigmoid_of(x), 1.0 / (1.0 + std::exp(-exact))));
    worst_tanh = std::max(worst_tanh, ulps(tanh_of(x), std::tanh(exact)));
  }
  CHECK(worst_sigmoid <= 4.0);
  CHECK(worst_tanh <= 4.0);
  CHECK(sigmoid_of(1e30f) == 1.0f);
  CHECK(sigmoid_of(-1e30f) == 0.0f);
  CHECK(tanh_of(-1e30f) == -1.0f);
  CHECK(tanh_of(0.0f) == 0.0f);
  CHECK(std::isnan(sigmoid_of(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(tanh_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("erf_of: within 6e-7 of libm in double; NaN for NaN") {
  Random random(test::seed(), 4);
  double worst = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    const float x = static_cast<float>((random.unit() - 0.5) * (i % 2 ? 20.0 : 4.0));
    worst = std::max(worst,
                     std::abs(static_cast<double>(erf_of(x)) - std::erf(static_cast<double>(x))));
  }
  CHECK(worst <= 6e-7);
  CHECK(std::isnan(erf_of(std::numeric_limits<float>::quiet_NaN())));
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
