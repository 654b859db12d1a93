// What a simulated board and its link are like.
#include <doctest/doctest.h>

#include <cmath>

#include "simulate/conditions.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

constexpr TimeUs kSecond = 1'000'000;
constexpr TimeUs kRun = 900 * kSecond;

struct Steps {
  double mean = 0;
  double log_deviation = 0;
};

// One step a virtual 10 ms, of so many.
Steps draw(const SpeedPlan& plan, TimeUs from, int count, uint32_t worker = 0) {
  StepClock clock(plan, kRun, test::seed(), worker);
  double sum = 0, log_sum = 0, log_squares = 0;
  for (int i = 0; i < count; ++i) {
    const auto us = static_cast<double>(clock.step_us(from + i * (kSecond / 100)));
    sum += us;
    log_sum += std::log(us);
    log_squares += std::log(us) * std::log(us);
  }
  const double mean_log = log_sum / count;
  return {sum / count, std::sqrt(std::max(0.0, log_squares / count - mean_log * mean_log))};
}

}  // namespace

TEST_SUITE("simulate/conditions") {
  TEST_CASE("an undisturbed board takes its step time, always") {
    const Steps steps = draw({.step_ms = 5}, 0, 1000);
    CHECK(steps.mean == 5000);
    CHECK(steps.log_deviation < 1e-6);
  }

  TEST_CASE("a lognormal spread keeps the mean") {
    const Steps steps = draw({.step_ms = 5, .step_sigma = 0.3}, 0, 50'000);
    CHECK(steps.mean == doctest::Approx(5000).epsilon(0.01));
    CHECK(steps.log_deviation == doctest::Approx(0.3).epsilon(0.02));
  }

  TEST_CASE("slow-downs take their share of the time, and each board has its own") {
    const SpeedPlan plan = {.step_ms = 5, .slow_share = 0.25, .slow_factor = 4, .slow_s = 0.05};
    CHECK(draw(plan, 0, 80'000).mean == doctest::Approx(5000 * 1.75).epsilon(0.03));
    StepClock one(plan, kRun, 1, 0), same(plan, kRun, 1, 0), other(plan, kRun, 1, 1);
    int differs = 0;
    for (TimeUs now = 0; now < 20 * kSecond; now += kSecond / 50) {
      const TimeUs us = one.step_us(now);
      CHECK(us == same.step_us(now));
      differs += us != other.step_us(now);
    }
    CHECK(differs > 100);
  }

  TEST_CASE("interference comes in the middle third, heat at noon") {
    const SpeedPlan middle = {.step_ms = 5, .middle_factor = 4};
    CHECK(draw(middle, 0, 100).mean == 5000);
    CHECK(draw(middle, kRun / 2, 100).mean == 20'000);
    CHECK(draw(middle, kRun * 3 / 4, 100).mean == 5000);
    StepClock clock({.step_ms = 5, .day_s = 100, .day_depth = 1}, kRun, 1, 0);
    CHECK(clock.step_us(0) == 5000);
    CHECK(clock.step_us(50 * kSecond) == 10'000);
    CHECK(clock.step_us(100 * kSecond) == 5000);
  }

  TEST_CASE("a link is what the plan says, or refused") {
    const LoopbackFaults faults =
        link_faults({.rate = "10mbit/1mbit", .delay_ms = 2, .jitter_ms = 1, .loss = 0.1}).value();
    CHECK(faults.delay_us == 2000);
    CHECK(faults.jitter_us == 1000);
    CHECK(faults.request_loss == 0.1);
    CHECK(faults.reply_loss == 0.1);
    CHECK(faults.link.up_bits_per_s == 1e6);
    CHECK(faults.link.down_bits_per_s == 10e6);
    CHECK(link_faults({.rate = "fast"}).error().code() == Code::kInvalidArgument);
  }
}
