#include "runtime/base/log_limit.h"

#include <doctest/doctest.h>

using namespace paceline;

TEST_SUITE("base/log_limit") {
  TEST_CASE("the first lines pass; of a flood one every ten seconds, with what was held back") {
    LogLimit limit;
    TimeUs now = from_ms(1'000'000);
    for (int i = 0; i < 5; ++i) CHECK(limit.pass(now) == "");
    for (int i = 0; i < 100; ++i) CHECK_FALSE(limit.pass(now + i).has_value());
    now += from_ms(10'000);
    CHECK(limit.pass(now) == " (and 100 more)");
    for (int i = 0; i < 7; ++i) CHECK_FALSE(limit.pass(now + i).has_value());
    now += from_ms(10'000);
    CHECK(limit.pass(now) == " (and 7 more)");
  }

  TEST_CASE("who is rare is always heard") {
    LogLimit limit;
    for (int i = 1; i < 50; ++i) CHECK(limit.pass(from_ms(10'000) * i) == "");
  }
}
