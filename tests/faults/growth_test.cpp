#include "tests/faults/growth.h"

#include <doctest/doctest.h>
#include <unistd.h>

using namespace paceline;
using namespace paceline::test;

namespace {

// A life of so many seconds, seen once a second, that begins at `megabytes`.
void live(Growth* growth, TimeUs* now, int seconds, double megabytes, double per_hour) {
  growth->begin_life(*now);
  for (int second = 0; second <= seconds; ++second, *now += from_ms(1000))
    growth->observe({megabytes + per_hour * second / 3600, 12}, *now);
}

}  // namespace

TEST_SUITE("faults/growth") {
  TEST_CASE("lives that begin at different sizes and grow alike have that slope") {
    Growth growth;
    TimeUs now = 0;
    live(&growth, &now, 100, 10, 36);
    live(&growth, &now, 200, 500, 36);
    REQUIRE(growth.slope());
    CHECK(growth.slope()->megabytes == doctest::Approx(36));
    CHECK(growth.slope()->files == doctest::Approx(0));
  }
  TEST_CASE("a life that is too short says nothing") {
    Growth growth;
    TimeUs now = 0;
    live(&growth, &now, 50, 10, 1000);
    CHECK_FALSE(growth.slope());
  }
  TEST_CASE("this process has a size") {
    const auto size = size_of_process(getpid());
    REQUIRE(size);
    CHECK(size->megabytes > 0.5);
    CHECK(size->files >= 3);
    CHECK_FALSE(size_of_process(-1));
  }
}
