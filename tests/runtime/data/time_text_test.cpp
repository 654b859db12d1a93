#include "runtime/data/time_text.h"

#include <doctest/doctest.h>

namespace paceline {

TEST_SUITE("data/time_text") {
  // Python's datetime gives the same seconds.
  TEST_CASE("parse_time: dates, clocks, both with a zone, and numbers in their unit") {
    CHECK(parse_time("2015-02-04 17:51:00.25", 1) == 1423072260.25);
    CHECK(parse_time("2015/2/4T17:51", 1) == 1423072260.0);
    CHECK(parse_time("2000-02-29", 1) == 951782400.0);
    CHECK(parse_time("1969-12-31T23:59:59Z", 1) == -1.0);
    CHECK(parse_time("2024-03-01 00:00:00+01:00", 1) == 1709247600.0);
    CHECK(parse_time("2024-03-01 00:00:00+0100", 1) == 1709247600.0);
    CHECK(parse_time("1900-03-01", 1) == -2203891200.0);
    CHECK(parse_time("2100.01.01 12.30.00", 1) == 4102489800.0);
    CHECK(parse_time("10:49:41", 1) == 38981.0);
    CHECK(parse_time("10.49.41", 1) == 38981.0);
    CHECK(parse_time("1657534605376", 1e-3) == doctest::Approx(1657534605.376));
    CHECK(parse_time("-2.5", 1) == -2.5);
  }

  TEST_CASE("parse_time: what is no time is nothing, not a guess") {
    for (const char* text :
         {"", "noon", "04/02/2015 17:51:00", "2015-13-01", "2015-00-10", "2015-01-00", "2015-01",
          "2015-02-04 25:00:00", "12:60", "2015-02-04 ", "2015-02-04x", "12:30:00+1", "nan", "inf",
          "1e999", "12:3", "2015-02/04"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_time(text, 1).has_value());
    }
  }
}

}  // namespace paceline
