// tau over synthetic curves of the fleet's loss.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/freq/freq.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

// Two standard errors of 5 to 8 points are passed by chance in 14 to 9 % of all looks (Student's t
// with 3 to 6 degrees of freedom), and a window is looked at four times while it grows.
constexpr double kFalseAlarmsMax = 0.3;

using Curve = std::function<double(uint64_t)>;

// tau after each of `count` evaluations of `curve`.
std::vector<uint32_t> taus(const char* policy, const Curve& curve, uint64_t count) {
  const std::unique_ptr<Freq> freq = make_freq(policy).value();
  std::vector<uint32_t> seen;
  for (uint64_t i = 0; i < count; ++i) {
    freq->observe({i + 1, 500, 250, curve(i)});
    seen.push_back(freq->tau());
  }
  return seen;
}

// Nearly a normal distribution of deviation 1.
double noise(Random& random) {
  double sum = 0;
  for (int i = 0; i < 12; ++i) sum += random.unit();
  return sum - 6;
}

std::vector<uint32_t> every_fifth(const std::vector<uint32_t>& seen) {
  std::vector<uint32_t> result;
  for (size_t i = 4; i < seen.size(); i += 5) result.push_back(seen[i]);
  return result;
}

}  // namespace

TEST_SUITE("freq/trend") {
  TEST_CASE("while the loss falls tau doubles every five evaluations, up to 64") {
    const std::vector<uint32_t> seen = taus(
        "trend", [](uint64_t i) { return 2.0 - 0.01 * static_cast<double>(i); }, 40);
    CHECK(seen[3] == 2);
    CHECK(every_fifth(seen) == std::vector<uint32_t>{4, 8, 16, 32, 64, 64, 64, 64});
  }

  TEST_CASE("while the loss rises tau halves every five evaluations, down to 1") {
    const std::vector<uint32_t> seen = taus(
        "trend:16", [](uint64_t i) { return 0.5 + 0.01 * static_cast<double>(i); }, 30);
    CHECK(every_fifth(seen) == std::vector<uint32_t>{8, 4, 2, 1, 1, 1});
  }

  TEST_CASE("a flat loss, or one that only swings, says nothing: tau stays, and the reason tells") {
    for (const double swing : {0.0, 0.1}) {
      const Curve curve = [&](uint64_t i) { return 1.0 + (i % 2 == 0 ? swing : -swing); };
      for (const uint32_t tau : taus("trend:8", curve, 60)) CHECK(tau == 8);
    }
    const std::unique_ptr<Freq> freq = make_freq("trend:8").value();
    for (uint64_t i = 0; i < 6; ++i) freq->observe({i, 500, 250, 1.0});
    CHECK(freq->reason().find("hold 8: signal too weak") == 0);
  }

  TEST_CASE("a fall that ends in a rise: tau grows, stays, and shrinks again") {
    const Curve valley = [](uint64_t i) {
      return i < 15 ? 2.0 - 0.1 * static_cast<double>(i) : 0.6 + 0.1 * static_cast<double>(i - 15);
    };
    CHECK(every_fifth(taus("trend", valley, 30)) == std::vector<uint32_t>{4, 8, 16, 8, 4, 2});
  }

  TEST_CASE("a clear fall never means talking more, from whatever tau it starts") {
    for (const uint32_t first : {1u, 48u, 63u, 64u, 65u, 128u, kTauMax}) {
      const std::vector<uint32_t> seen = taus(
          format_text("trend:%u", first).c_str(),
          [](uint64_t i) { return 2.0 - 0.01 * static_cast<double>(i); }, 20);
      uint32_t before = first;
      for (const uint32_t tau : seen) {
        CHECK(tau >= before);
        before = tau;
      }
    }
  }

  TEST_CASE("at most one change in five evaluations, by a factor of two, on any curve") {
    for (uint64_t run = 0; run < 300; ++run) {
      Random random(test::seed(), run);
      const double slope = (random.unit() - 0.5) * 0.1;
      const double spread = random.unit() * 0.1;
      const std::vector<uint32_t> seen = taus(
          "trend:8",
          [&](uint64_t i) { return slope * static_cast<double>(i) + spread * noise(random); }, 60);
      uint32_t before = 8;
      size_t last_change = 0;
      for (size_t i = 0; i < seen.size(); ++i) {
        if (seen[i] == before) continue;
        CHECK((seen[i] == 2 * before || 2 * seen[i] == before));
        CHECK(i + 1 - last_change >= 5);
        last_change = i + 1;
        before = seen[i];
      }
    }
  }

  TEST_CASE("noise alone changes tau seldom, and as often up as down") {
    constexpr uint64_t kRuns = 1000;
    uint64_t windows_changed = 0, up = 0, down = 0;
    for (uint64_t run = 0; run < kRuns; ++run) {
      Random random(test::seed(), run);
      const std::vector<uint32_t> seen = taus(
          "trend:8", [&](uint64_t) { return 1.0 + 0.05 * noise(random); }, 8);
      if (seen.back() != 8) ++windows_changed;
      if (seen.back() > 8) ++up;
      if (seen.back() < 8) ++down;
    }
    MESSAGE("noise alone: " << windows_changed << " of " << kRuns << " windows changed tau, " << up
                            << " up, " << down << " down");
    CHECK(static_cast<double>(windows_changed) <= kFalseAlarmsMax * kRuns);
    CHECK(up + down == windows_changed);
    CHECK(up < 3 * down);
    CHECK(down < 3 * up);
  }

  TEST_CASE("a loss that is no number holds tau until it has left the window") {
    const Curve curve = [](uint64_t i) {
      return i == 3 ? std::numeric_limits<double>::quiet_NaN()
                    : 2.0 - 0.01 * static_cast<double>(i);
    };
    const std::vector<uint32_t> seen = taus("trend", curve, 12);
    for (size_t i = 0; i < 11; ++i) CHECK(seen[i] == 2);
    CHECK(seen[11] == 4);
  }
}
