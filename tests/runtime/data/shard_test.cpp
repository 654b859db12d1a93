#include "runtime/data/shard.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/data/portable_math.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

constexpr uint32_t kClasses = 10;

std::vector<int32_t> some_labels(size_t count, uint64_t seed) {
  Random random(seed, 42);
  std::vector<int32_t> labels(count);
  for (auto& label : labels) label = static_cast<int32_t>(random.below(kClasses));
  return labels;
}

std::vector<std::vector<uint32_t>> all_shards(std::span<const int32_t> labels,
                                              ShardOptions options) {
  std::vector<std::vector<uint32_t>> shards;
  for (options.index = 0; options.index < options.count; ++options.index)
    shards.push_back(shard_rows(labels, kClasses, options).value());
  return shards;
}

uint32_t checksum(const std::vector<std::vector<uint32_t>>& shards) {
  uint32_t sum = 0;
  for (const auto& rows : shards) sum = crc32c(std::as_bytes(std::span(rows)), sum);
  return sum;
}

// Mean over shards of the share of a shard's most frequent class.
double skew(std::span<const int32_t> labels, const std::vector<std::vector<uint32_t>>& shards) {
  double sum = 0;
  size_t used = 0;
  for (const auto& rows : shards) {
    if (rows.empty()) continue;
    std::vector<size_t> counts(kClasses);
    for (const uint32_t row : rows) ++counts[static_cast<size_t>(labels[row])];
    const size_t largest = *std::max_element(counts.begin(), counts.end());
    sum += static_cast<double>(largest) / static_cast<double>(rows.size());
    ++used;
  }
  return sum / static_cast<double>(used);
}

}  // namespace

TEST_SUITE("data/shard") {
  TEST_CASE("shard_rows: disjoint, ascending and covering for every count, alpha and row bound") {
    const std::vector<int32_t> labels = some_labels(997, test::seed());
    for (const uint32_t count : {1u, 7u, 32u})
      for (const double alpha : {0.0, 1e-3, 0.5, 1e6})
        for (const uint64_t rows_max : {uint64_t{0}, uint64_t{500}, UINT64_MAX}) {
          CAPTURE(count);
          CAPTURE(alpha);
          const auto shards = all_shards(labels, {0, count, alpha, test::seed(), rows_max});
          std::vector<uint32_t> all;
          for (const auto& rows : shards) {
            CHECK(std::is_sorted(rows.begin(), rows.end()));
            all.insert(all.end(), rows.begin(), rows.end());
          }
          std::sort(all.begin(), all.end());
          REQUIRE(all.size() == std::min<uint64_t>(rows_max, labels.size()));
          for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
        }
  }

  TEST_CASE("shard_rows: the same rows on every machine") {
    const std::vector<int32_t> labels = some_labels(5000, 1);
    CHECK(checksum(all_shards(labels, {0, 8, 0, 7})) == 0xC5B0B3DB);
    CHECK(checksum(all_shards(labels, {0, 8, 0.5, 7})) == 0xB2C987F3);
    CHECK(checksum(all_shards(labels, {0, 8, 0.05, 7})) == 0x0071ADCE);
    CHECK(checksum(all_shards(labels, {0, 8, 30, 7})) == 0xE024FDD8);
  }

  TEST_CASE("shard_rows: IID shards differ by one row at most; another seed gives others") {
    const std::vector<int32_t> labels = some_labels(1003, test::seed());
    const auto shards = all_shards(labels, {0, 4, 0, 1});
    for (const auto& rows : shards) CHECK((rows.size() == 250 || rows.size() == 251));
    CHECK(checksum(shards) != checksum(all_shards(labels, {0, 4, 0, 2})));
  }

  TEST_CASE("shard_rows: small alpha gives few classes a worker, large alpha is near IID") {
    const std::vector<int32_t> labels = some_labels(20'000, 3);
    const auto skew_at = [&](double alpha) {
      return skew(labels, all_shards(labels, {0, 10, alpha, 5}));
    };
    const double iid = skew(labels, all_shards(labels, {0, 10, 0, 5}));
    CHECK(iid < 0.13);
    CHECK(skew_at(1e5) < 0.13);
    CHECK(skew_at(1) > 0.18);
    CHECK(skew_at(0.1) > 0.4);
    CHECK(skew_at(0.01) > 0.7);
  }

  TEST_CASE("shard_rows: shares have the mean and the variance of Dirichlet(alpha)") {
    // One class, so that a shard's size is its share: mean 1/n, variance (n - 1) / (n^2 (n alpha +
    // 1)).
    const std::vector<int32_t> labels(1000, 0);
    constexpr double kWorkers = 4;
    for (const double alpha : {0.2, 1.0, 5.0}) {
      double sum = 0, squares = 0;
      constexpr int kDraws = 800;
      for (int draw = 0; draw < kDraws; ++draw) {
        const ShardOptions options{1, 4, alpha, test::seed() + static_cast<uint64_t>(draw)};
        const double share = static_cast<double>(shard_rows(labels, 1, options)->size()) / 1000;
        sum += share;
        squares += (share - 1 / kWorkers) * (share - 1 / kWorkers);
      }
      CAPTURE(alpha);
      const double variance = (kWorkers - 1) / (kWorkers * kWorkers * (kWorkers * alpha + 1));
      // Five standard errors of the mean; the variance within 25 %.
      CHECK(std::abs(sum / kDraws - 1 / kWorkers) < 5 * std::sqrt(variance / kDraws));
      CHECK(std::abs(squares / kDraws / variance - 1) < 0.25);
    }
  }

  TEST_CASE("shard_rows: options and labels out of bounds are kInvalidArgument") {
    const std::vector<int32_t> labels{0, 1, -1};
    for (const ShardOptions& options :
         {ShardOptions{2, 2}, ShardOptions{0, 0}, ShardOptions{0, 1, -1}, ShardOptions{0, 1, NAN},
          ShardOptions{0, 1}})
      CHECK(shard_rows(labels, 2, options).error().code() == Code::kInvalidArgument);
    CHECK(shard_rows({}, 0, {0, 3, 0.5})->empty());
  }

  TEST_CASE("parse_shard: reads every form it names") {
    const ShardOptions plain = parse_shard("2/4").value();
    CHECK(plain.index == 2);
    CHECK(plain.count == 4);
    CHECK(plain.dirichlet_alpha == 0);
    const ShardOptions full = parse_shard("0/3:seed=7,dirichlet=0.5,rows=55000").value();
    CHECK(full.seed == 7);
    CHECK(full.dirichlet_alpha == 0.5);
    CHECK(full.row_count_max == 55000);
  }

  TEST_CASE("parse_shard: anything else is kInvalidArgument with the form") {
    for (const char* text : {"",
                             "/",
                             "2",
                             "4/4",
                             "-1/4",
                             "1/0",
                             "1/2:",
                             "1/2:seed",
                             "1/2:seed=",
                             "1/2:seed=x",
                             "1/2:dirichlet=0",
                             "1/2:dirichlet=nan",
                             "1/2:dirichlet=1e9",
                             "1/2:alpha=1",
                             "1/2:seed=1,",
                             "1/2 ",
                             "1/99999",
                             "99999999999/4",
                             "a/b",
                             ":1/2"}) {
      CAPTURE(text);
      const auto options = parse_shard(text);
      REQUIRE_FALSE(options.has_value());
      CHECK(options.error().code() == Code::kInvalidArgument);
      CHECK(options.error().message().find("INDEX/COUNT") != std::string::npos);
    }
  }

  TEST_CASE("split_hold_out: the last tenth, at least 20, none below 40 rows") {
    for (const auto& [rows, held_out] : {std::pair<size_t, size_t>{0, 0},
                                         {39, 0},
                                         {40, 20},
                                         {200, 20},
                                         {209, 20},
                                         {210, 21},
                                         {1000, 100}}) {
      const HoldOut split = split_hold_out(rows);
      CHECK(split.held_out.size() == held_out);
      REQUIRE(split.training.size() == rows - held_out);
      std::vector<uint32_t> all = split.training;
      all.insert(all.end(), split.held_out.begin(), split.held_out.end());
      for (size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
    }
  }
}

TEST_SUITE("data/portable_math") {
  TEST_CASE("log and exp: within a few units in the last place of the C library") {
    Random random(test::seed(), 9);
    for (int i = 0; i < 5000; ++i) {
      const double x = portable::exp(1400 * random.unit() - 700);
      CHECK(std::abs(portable::log(x) - std::log(x)) <= 1e-15 * std::abs(std::log(x)) + 1e-16);
      const double y = 1400 * random.unit() - 700;
      CHECK(std::abs(portable::exp(y) / std::exp(y) - 1) < 2e-15);
      CHECK(std::abs(portable::square_root(x) / std::sqrt(x) - 1) < 1e-13);
    }
    CHECK(portable::log(1) == 0);
    CHECK(portable::exp(0) == 1);
    CHECK(portable::exp(-1e9) == 0);
  }
}

}  // namespace paceline
