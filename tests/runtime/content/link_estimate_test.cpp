#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/base/random.h"
#include "runtime/content/content.h"
#include "tests/support/seed.h"

using namespace paceline;

TEST_SUITE("content/link_estimate") {
  TEST_CASE("a link's cost is found exactly where up to four of nine transfers had a hiccup") {
    Random random(test::seed(), 21);
    for (int trial = 0; trial < 200; ++trial) {
      const double trip_us = 100 + 1e5 * random.unit();
      const double up = 1e-2 * std::pow(1e4, random.unit());  // 80 kbit/s to 800 Mbit/s
      const double down = 1e-2 * std::pow(1e4, random.unit());
      LinkEstimate link;
      for (int i = 0; i < 27; ++i) {
        const double slow = i % 9 < 4 ? 1 + 20 * random.unit() : 1;
        link.observe_trip(trip_us * slow);
      }
      for (int i = 0; i < 27; ++i) {
        const double slow = i % 9 < 4 ? 1 + 20 * random.unit() : 1;
        const double trips = 1 + static_cast<double>(random.below(5));
        // Long enough for the carrying to be seen beside the trips.
        const double up_bytes = trips * trip_us / up * (0.1 + random.unit());
        const double down_bytes = trips * trip_us / down * (0.1 + random.unit());
        link.observe_up({up_bytes, trips, (trips * trip_us + up_bytes * up) * slow});
        link.observe_down({down_bytes, trips, (trips * trip_us + down_bytes * down) * slow});
      }
      CHECK(link.known());
      CHECK(link.cost().trip_us == doctest::Approx(trip_us));
      CHECK(link.cost().up_us_per_byte == doctest::Approx(up));
      CHECK(link.cost().down_us_per_byte == doctest::Approx(down));
    }
  }

  TEST_CASE("a transfer that is no longer than its trips leaves a rate that is finite") {
    LinkEstimate link;
    link.observe_trip(1000);
    link.observe_up({1000, 1, 400});
    CHECK(link.cost().up_us_per_byte > 0);
    CHECK(link.cost().up_us_per_byte <= 0.4);
  }

  TEST_CASE("what was not timed, or can't be, says nothing") {
    LinkEstimate link;
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double us : {0.0, -1.0, -infinity, std::nan("")}) link.observe_up({1000, 1, us});
    link.observe_up({0, 1, 1000});
    link.observe_trip(-1);
    link.observe_trip(infinity);
    link.observe_trip(std::nan(""));
    link.observe_down({1000, 1, 1000});
    CHECK_FALSE(link.known());
    CHECK(link.cost().trip_us == 0);
    link.observe_up({1000, 1, 1000});
    CHECK(link.known());
  }
}
