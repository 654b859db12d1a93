#include "runtime/base/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/support/seed.h"

using namespace paceline;

namespace {

// Chi-square of `counts` against equal shares.
double chi_square(std::span<const uint64_t> counts) {
  const double total =
      static_cast<double>(std::accumulate(counts.begin(), counts.end(), uint64_t{0}));
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  return sum;
}

// Passed by chance once in 10,000 runs.
constexpr double kChiSquareMax2 = 18.4;  // 2 degrees of freedom
constexpr double kChiSquareMax9 = 33.7;  // 9 degrees of freedom

static_assert(Random(1, 2).counter() == 0);

}  // namespace

TEST_SUITE("base/random") {
  TEST_CASE("splitmix64 gives the published sequence for 1234567") {
    uint64_t state = 1234567;
    for (const uint64_t value : {6457827717110365317ull, 3203168211198807973ull,
                                 9817491932198370423ull, 4593380528125082431ull})
      CHECK(splitmix64(state) == value);
  }

  TEST_CASE("the first outputs of a stream never change: they are in saved runs") {
    constexpr std::array<uint64_t, 4> kFirst = {0x41e3f9b939fef82c, 0x4aaf1c37ce9211d4,
                                                0xbeaa3b34c394b9b3, 0xbfb6e73b2adac0a6};
    Random random(1, 2);
    for (const uint64_t value : kFirst) CHECK(random.next() == value);
    CHECK(Random(0, 0).next() == 0x238275bc38fcbe91);
    CHECK(Random(20260901, 7).next() == 0xc558f3ae48eb48b7);
  }

  TEST_CASE("a cursor can be copied and sought, and goes on the same") {
    Random random(test::seed(), 3);
    for (int i = 0; i < 10; ++i) random.next();
    Random copy = random;
    Random sought(test::seed(), 3);
    sought.seek(random.counter());
    for (int i = 0; i < 10; ++i) {
      const uint64_t value = random.next();
      CHECK(copy.next() == value);
      CHECK(sought.next() == value);
    }
  }

  TEST_CASE("below: unbiased for a small bound, and for one that a bare remainder would bend") {
    Random random(test::seed(), 4);
    std::array<uint64_t, 10> tens{};
    for (int i = 0; i < 100'000; ++i) ++tens[static_cast<size_t>(random.below(10))];
    CHECK(chi_square(tens) < kChiSquareMax9);

    // 2^64 mod bound is a third of it: a remainder would give the lowest third half of all.
    constexpr uint64_t kThird = 1ull << 62;
    std::array<uint64_t, 3> thirds{};
    for (int i = 0; i < 30'000; ++i)
      ++thirds[static_cast<size_t>(random.below(3 * kThird) / kThird)];
    CHECK(chi_square(thirds) < kChiSquareMax2);
    CHECK(random.below(1) == 0);
  }

  TEST_CASE("unit and symmetric keep their ranges, grids and means") {
    Random random(test::seed(), 5);
    double unit_sum = 0, symmetric_sum = 0;
    constexpr int kDraws = 100'000;
    for (int i = 0; i < kDraws; ++i) {
      const double unit = random.unit();
      const float symmetric = random.symmetric();
      if (!(unit >= 0 && unit < 1)) FAIL(unit);
      if (!(symmetric >= -1.0f && symmetric < 1.0f)) FAIL(symmetric);
      const float on_grid = symmetric * 0x1p24f;
      if (on_grid != static_cast<float>(static_cast<int32_t>(on_grid))) FAIL(symmetric);
      unit_sum += unit;
      symmetric_sum += static_cast<double>(symmetric);
    }
    // Four standard errors of the means.
    CHECK(unit_sum / kDraws == doctest::Approx(0.5).epsilon(4 * 0.2887 / 316.2 / 0.5));
    CHECK(symmetric_sum / kDraws < 4 * 0.5774 / 316.2);
    CHECK(symmetric_sum / kDraws > -4 * 0.5774 / 316.2);
  }

  TEST_CASE("shuffle: a permutation, and every item is as often in the first place") {
    Random random(test::seed(), 6);
    std::array<uint64_t, 10> first{};
    std::vector<uint32_t> items(10);
    for (int i = 0; i < 20'000; ++i) {
      std::iota(items.begin(), items.end(), 0u);
      random.shuffle(std::span(items));
      ++first[items[0]];
    }
    CHECK(chi_square(first) < kChiSquareMax9);
    std::ranges::sort(items);
    for (uint32_t i = 0; i < 10; ++i) CHECK(items[i] == i);
  }

  TEST_CASE("streams of one seed and seeds of one stream have nothing in common") {
    std::vector<uint64_t> values;
    for (uint64_t i = 0; i < 100; ++i) {
      Random by_stream(1, i), by_seed(1000 + i, 1);
      for (int k = 0; k < 20; ++k) {
        values.push_back(by_stream.next());
        values.push_back(by_seed.next());
      }
    }
    std::ranges::sort(values);
    CHECK(std::ranges::adjacent_find(values) == values.end());
  }
}
