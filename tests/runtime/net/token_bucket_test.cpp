#include "runtime/net/token_bucket.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST_SUITE_BEGIN("net/token_bucket");

TEST_CASE("without a limit everything is through at once") {
  TokenBucket bucket(0);
  CHECK(bucket.take(1'000'000'000, 7) == 7);
  CHECK(bucket.take(1, 8) == 8);
}

TEST_CASE("bytes take their time, one message after another, and an idle link saves nothing up") {
  TokenBucket bucket(1e6);  // 8 us a byte
  CHECK(bucket.take(1000, 0) == 8000);
  CHECK(bucket.take(1000, 3000) == 16'000);    // behind the first
  CHECK(bucket.take(1000, 50'000) == 58'000);  // the pause is lost
}

TEST_CASE("an urgent message doesn't queue, but delays the queue by its own length") {
  TokenBucket bucket(1e6);
  CHECK(bucket.take(10'000, 0) == 80'000);
  CHECK(bucket.take_urgent(100, 10'000) == 10'800);
  CHECK(bucket.take(1000, 20'000) == 88'800);
}

TEST_CASE("over any sequence no more passes than the rate allows, and a busy link loses nothing") {
  Random random(test::seed(), 1);
  for (int round = 0; round < 200; ++round) {
    const double bits_per_s = static_cast<double>(1000 + random.below(10'000'000));
    TokenBucket bucket(bits_per_s);
    TimeUs now = 0;
    TimeUs done = 0;
    size_t bytes = 0;
    const bool busy = round % 2 == 0;
    for (int i = 0; i < 50; ++i) {
      const auto size = static_cast<size_t>(random.below(100'000));
      bytes += size;
      done = bucket.take(size, now);
      now = busy ? now : now + static_cast<TimeUs>(random.below(1'000'000));
    }
    const double ideal_us = static_cast<double>(bytes) * 8e6 / bits_per_s;
    CHECK(static_cast<double>(done) >= ideal_us - 51);  // each is cut to a whole microsecond
    if (busy) CHECK(static_cast<double>(done) <= ideal_us);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
