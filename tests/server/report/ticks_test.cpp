#include "server/report/ticks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

void check_axis(const Axis& axis, double low, double high, size_t tick_count_max) {
  CAPTURE(low);
  CAPTURE(high);
  CHECK(axis.low < axis.high);
  CHECK(axis.position(low) >= -1e-9);
  CHECK(axis.position(high) <= 1 + 1e-9);
  CHECK(axis.position(low) <= axis.position(high));
  CHECK(axis.ticks.size() >= 2);
  CHECK(axis.ticks.size() <= tick_count_max);
  std::set<std::string> labels;
  size_t labelled = 0;
  for (size_t i = 0; i < axis.ticks.size(); ++i) {
    const Tick& tick = axis.ticks[i];
    if (i > 0) CHECK(tick.value > axis.ticks[i - 1].value);
    CHECK(axis.position(tick.value) >= -1e-9);
    CHECK(axis.position(tick.value) <= 1 + 1e-3);
    if (tick.label.empty()) continue;
    labels.insert(tick.label);
    ++labelled;
  }
  CHECK(labels.size() == labelled);
  CHECK(labelled >= 2);
}

}  // namespace

TEST_SUITE("report/ticks") {
  TEST_CASE("linear: covers any range with a few distinct, ascending, labelled ticks") {
    Random random(test::seed(), 1);
    for (int i = 0; i < 2000; ++i) {
      const double magnitude = std::pow(10, 12 * random.unit() - 4);
      const double low = magnitude * random.unit();
      const double high = low + magnitude * (0.05 + random.unit());
      check_axis(linear_axis(low, high, static_cast<Unit>(random.below(4)), 5), low, high, 13);
    }
  }

  TEST_CASE("linear: a flat range at zero, at one or anywhere gets room around it") {
    for (const double value : {0.0, 1.0, -3.0, 1e-6, 1e9}) {
      const Axis axis = linear_axis(value, value, Unit::kNone, 5);
      check_axis(axis, value, value, 13);
      // An accuracy or a time does not become negative for it.
      if (value > 0) CHECK(axis.low >= 0);
    }
  }

  TEST_CASE("logarithmic: covers any positive range up to the largest count of bytes") {
    Random random(test::seed(), 2);
    for (int i = 0; i < 2000; ++i) {
      const double low = std::pow(10, 10 * random.unit());
      const double high = low * std::pow(10, 9 * random.unit());
      check_axis(logarithmic_axis(low, high, Unit::kBytes), low, high, 40);
    }
    check_axis(logarithmic_axis(7, 7, Unit::kBytes), 7, 7, 10);
  }

  TEST_CASE("unit_text: three digits in the unit that a person would choose") {
    CHECK(unit_text(0.8612, Unit::kPercent) == "86.1 %");
    CHECK(unit_text(95, Unit::kSeconds) == "95 s");
    CHECK(unit_text(1000, Unit::kSeconds) == "16.7 min");
    CHECK(unit_text(10'000, Unit::kSeconds) == "2.78 h");
    CHECK(unit_text(999, Unit::kBytes) == "999 B");
    CHECK(unit_text(12'300'000, Unit::kBytes) == "12.3 MB");
    CHECK(unit_text(5e12, Unit::kBytes) == "5000 GB");
    CHECK(unit_text(0.25, Unit::kNone) == "0.25");
    CHECK(unit_text(NAN, Unit::kPercent) == "not known");
  }
}

}  // namespace paceline
