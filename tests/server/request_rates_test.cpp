#include "server/request_rates.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::seed;

namespace {

constexpr TimeUs kSecond = 1'000'000;
constexpr RequestLimits kSmall{.requests_per_s = 100,
                               .bytes_per_s = 10'000,
                               .burst_us = kSecond / 10,
                               .waiting_max = 8,
                               .waiting_bytes_max = 1 << 20};

}  // namespace

TEST_SUITE("server/request_rates") {
  TEST_CASE("who waits for each answer before it asks again is never held up") {
    // As fast as one machine without a network gets, on all lanes.
    RequestRates rates;
    TimeUs now = kSecond;
    for (int i = 0; i < 10'000; ++i, now += 100) CHECK(rates.take("a", 1000, now) == now);
    // The largest message, as fast as a gigabit brings it.
    for (int i = 0; i < 200; ++i, now += 9'000)
      CHECK(rates.take("a", kMessageBytesMax, now) == now);
  }

  TEST_CASE("any window serves a flood no more than the rates, one burst and what may wait") {
    constexpr double kWaiting = static_cast<double>(kSmall.waiting_max) + 1;
    Random random(seed(), 1);
    for (int run = 0; run < 20; ++run) {
      RequestRates rates(kSmall);
      struct Served {
        TimeUs at;
        double bytes;
      };
      std::vector<Served> served;
      TimeUs now = kSecond;
      for (int i = 0; i < 500; ++i) {
        now += static_cast<TimeUs>(random.below(12'000));
        const auto bytes = static_cast<size_t>(random.below(200));
        const std::optional<TimeUs> at = rates.take("flood", bytes, now);
        if (!at) continue;
        CHECK(*at >= now);
        CHECK((served.empty() || *at >= served.back().at));
        served.push_back({*at, static_cast<double>(bytes)});
      }
      // Against a count of every window, which knows nothing of how they are kept.
      for (size_t begin = 0; begin < served.size(); ++begin) {
        double bytes = 0;
        for (size_t end = begin; end < served.size(); ++end) {
          bytes += served[end].bytes;
          const double seconds = to_seconds(served[end].at - served[begin].at + kSmall.burst_us);
          REQUIRE(static_cast<double>(end - begin) <= seconds * kSmall.requests_per_s + kWaiting);
          REQUIRE(bytes <= seconds * kSmall.bytes_per_s + kWaiting * 200);
        }
      }
    }
  }

  TEST_CASE(
      "a flood waits within its bounds, and what is beyond them is dropped and not paid for") {
    RequestRates rates(kSmall);
    std::vector<TimeUs> waiting;
    size_t dropped = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::optional<TimeUs> at = rates.take("flood", 1, kSecond);
      if (!at)
        ++dropped;
      else if (*at > kSecond)
        waiting.push_back(*at);
    }
    CHECK(waiting.size() == kSmall.waiting_max);
    CHECK(dropped > 900);
    CHECK(std::ranges::is_sorted(waiting));
    // As soon as they are served there is room again.
    CHECK(rates.take("flood", 1, waiting.back() + kSecond) == waiting.back() + kSecond);
  }

  TEST_CASE("large requests that wait have one bound for all who flood") {
    RequestRates rates(kSmall);
    const size_t bytes = kSmall.waiting_bytes_max / 4;
    size_t taken = 0;
    for (const char* who : {"a", "b", "c", "d", "e", "f"})
      for (int i = 0; i < 3; ++i) taken += rates.take(who, bytes, kSecond) ? 1 : 0;
    CHECK(taken == 4);
  }

  TEST_CASE("nobody pays for another's flood, and who is quiet is forgotten") {
    RequestRates rates(kSmall);
    TimeUs now = kSecond;
    for (int i = 0; i < 5000; ++i, now += 1000) {
      rates.take("flood", 100, now);
      if (i % 100 == 0) CHECK(rates.take("honest", 100, now) == now);
    }
    for (int i = 0; i < 100; ++i) rates.take("passer-by" + std::to_string(i), 1, now);
    rates.take("honest", 1, now + 60 * kSecond);
    CHECK(rates.known_count() == 1);
  }
}
