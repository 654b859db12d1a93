#include "runtime/data/row_ring.h"

#include <doctest/doctest.h>

#include <set>

#include "runtime/base/random.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

using test::contains;
using test::pick;

DataSchema schema_of(const std::string& keys) {
  Result<DataSchema> schema =
      parse_data_schema("[data]\ncolumns = [\"a\", \"y\"]\nlabel = \"y\"\n" + keys);
  REQUIRE_MESSAGE(schema.has_value(), schema.error().message());
  return std::move(*schema);
}

std::set<uint64_t> rows_of(const std::deque<RingSample>& samples, uint32_t span) {
  std::set<uint64_t> rows;
  for (const RingSample& sample : samples)
    for (uint32_t i = 0; i < span; ++i) rows.insert(sample.first_row + i);
  return rows;
}

}  // namespace

TEST_SUITE("data/row_ring") {
  // Row i holds (i, -i) and the number i, so that a sample tells which rows it was made of.
  TEST_CASE("ring: samples are whole, never of overwritten rows, and no row is on both sides") {
    Random random(test::seed(), 71);
    for (int round = 0; round < 40; ++round) {
      const auto window = static_cast<uint32_t>(1 + pick(random, 5));
      const auto horizon = static_cast<uint32_t>(1 + pick(random, 3));
      const auto stride = static_cast<uint32_t>(1 + pick(random, 4));
      const DataSchema schema = schema_of(format_text(
          "task = \"forecast\"\nhorizon = %u\nwindow = %u\nstride = %u\nscale = [2, 1]\n", horizon,
          window, stride));
      const uint32_t span = window + horizon;
      const auto rows_max = static_cast<uint32_t>(span * 40 + pick(random, 100));
      RowRing ring = RowRing::make(schema, rows_max).value();
      const size_t rows = rows_max / 2 + pick(random, 3 * size_t{rows_max});
      std::set<uint64_t> trained_on, judged_on;
      std::vector<float> features(2 * window);
      size_t whole = 0, run = 0;
      for (uint64_t i = 0; i < rows; ++i) {
        if (pick(random, 60) == 0) {
          ring.leave_out();
          run = 0;
        }
        const std::vector<float> row{static_cast<float>(i), -static_cast<float>(i)};
        ring.add({row, 0, static_cast<float>(i), std::nullopt});
        whole += ++run >= span && (run - span) % stride == 0;
        if (i % 7 != 0 && i + 1 != rows) continue;
        for (const auto* side : {&ring.training(), &ring.held_out()}) {
          for (const RingSample& sample : *side) {
            REQUIRE(sample.first_row + rows_max >= i + 1);
            ring.lay_out(sample, features);
            for (uint32_t k = 0; k < window; ++k) {
              REQUIRE(features[k] == 2 * static_cast<float>(sample.first_row + k));
              REQUIRE(features[window + k] == -static_cast<float>(sample.first_row + k));
            }
            REQUIRE(sample.number == static_cast<float>(sample.first_row + span - 1));
            REQUIRE(sample.last_number == static_cast<float>(sample.first_row + window - 1));
          }
        }
        trained_on.merge(rows_of(ring.training(), span));
        judged_on.merge(rows_of(ring.held_out(), span));
        REQUIRE(ring.training().size() <= ring.training_max());
        REQUIRE(ring.held_out().size() <= ring.held_out_max());
      }
      for (const uint64_t row : judged_on) REQUIRE_FALSE(trained_on.contains(row));
      CHECK(ring.row_count() == rows);
      // At most a span's samples are lost at each line of a block, and there are two in five
      // blocks.
      if (rows <= rows_max)
        CHECK(ring.training().size() + ring.held_out().size() +
                  2 * (rows / (span * 40) + 1) * (span / stride + 1) >=
              whole);
      if (rows > 4 * rows_max / 3) CHECK_FALSE(ring.held_out().empty());
    }
  }

  TEST_CASE("ring: classes go by most of a window's rows, also over the ring's end") {
    const DataSchema schema =
        parse_data_schema(
            "[data]\ncolumns = [\"a\"]\nlabel = \"y\"\nclasses = [\"off\", \"on\"]\nwindow = 3\n"
            "stride = 1\n")
            .value();
    RowRing ring = RowRing::make(schema, 120).value();
    for (uint32_t i = 0; i < 500; ++i) {
      const float value = 0;
      ring.add({{&value, 1}, i % 4 == 0 ? 1 : static_cast<int32_t>(i % 4 == 1), 0, {}});
      for (const RingSample& sample : ring.training())
        REQUIRE(sample.label == (sample.first_row % 4 == 0 || sample.first_row % 4 == 3 ? 1 : 0));
    }
  }

  TEST_CASE("ring: one that can't hold a block of each kind is refused with the number") {
    const DataSchema schema = schema_of("task = \"forecast\"\nhorizon = 1\nwindow = 9\n");
    const Result<RowRing> small = RowRing::make(schema, 399);
    REQUIRE_FALSE(small.has_value());
    CHECK(contains(small.error().message(), "give --ring-rows 400 or more"));
    CHECK(RowRing::make(schema, 400).has_value());
    const Result<RowRing> large = RowRing::make(schema, uint32_t{1} << 28);
    REQUIRE_FALSE(large.has_value());
    CHECK(
        contains(large.error().message(), "takes more than 256 MiB: give --ring-rows 16777207 or"));
  }
}

}  // namespace paceline
