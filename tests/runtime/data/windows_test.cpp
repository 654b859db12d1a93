#include "runtime/data/windows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "runtime/base/log.h"
#include "runtime/data/describe.h"
#include "runtime/data/shard.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::contains;
using test::pick;
using test::TempFolder;

struct Row {
  bool counts;
  double time_s;
};

WindowRules random_rules(Random& random) {
  WindowRules rules;
  rules.rows = 1 + static_cast<uint32_t>(pick(random, 6));
  rules.stride = 1 + static_cast<uint32_t>(pick(random, 5));
  rules.horizon = static_cast<uint32_t>(pick(random, 4));
  if (pick(random, 2) == 0) rules.time = "t";
  rules.gap_max = static_cast<double>(pick(random, 3));
  return rules;
}

std::vector<Row> random_series(Random& random) {
  std::vector<Row> series;
  double now = 0;
  for (size_t i = pick(random, 80); i > 0; --i) {
    now += pick(random, 12) == 0 ? -1.0 : static_cast<double>(pick(random, 7)) / 2 - 0.5;
    series.push_back({pick(random, 9) != 0, now});
  }
  return series;
}

// By the definition, without a state: runs of rows that count, cut where neighbours do not belong
// together, then every stride-th start in each. In rows that count.
std::vector<uint32_t> expected_windows(const WindowRules& rules, const std::vector<Row>& series) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < series.size(); ++i)
    if (series[i].counts) kept.push_back(i);
  std::vector<uint32_t> starts;
  const auto joined = [&](size_t k) {
    const double step = series[kept[k]].time_s - series[kept[k - 1]].time_s;
    const size_t between = kept[k] - kept[k - 1] - 1;
    return rules.time.empty() ? static_cast<double>(between) <= rules.gap_max
                              : between == 0 && step >= 0 && step <= rules.gap_max;
  };
  for (size_t begin = 0; begin < kept.size();) {
    size_t end = begin + 1;
    while (end < kept.size() && joined(end)) ++end;
    for (size_t first = begin; first + rules.span() <= end; first += rules.stride)
      starts.push_back(static_cast<uint32_t>(first));
    begin = end;
  }
  return starts;
}

DataSchema schema_of(const std::string& keys, const std::string& columns = "\"a\", \"b\"") {
  Result<DataSchema> schema =
      parse_data_schema("[data]\ncolumns = [" + columns + "]\nlabel = \"y\"\n" + keys);
  REQUIRE_MESSAGE(schema.has_value(), schema.error().message());
  return std::move(*schema);
}

Dataset read(const DataSchema& schema, const std::string& path) {
  ReadOptions options;
  options.schema = &schema;
  Result<Dataset> dataset = read_dataset(path, options);
  REQUIRE_MESSAGE(dataset.has_value(), dataset.error().message());
  return std::move(*dataset);
}

Dataset read_text(const DataSchema& schema, std::string_view text) {
  const TempFolder folder;
  return read(schema, folder.write("board.csv", text));
}

// Rows 0 to `count` of one column, in windows.
Dataset counting(size_t count, const WindowRules& rules) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  std::vector<uint32_t> starts;
  for (uint32_t first = 0; first + rules.span() <= count; first += rules.stride)
    starts.push_back(first);
  const auto raw = std::as_bytes(std::span(values));
  Dataset dataset(ElementType::kFloat32, Bytes(raw.begin(), raw.end()), {1},
                  std::vector<int32_t>(count), 1);
  dataset.set_windows(rules, std::move(starts));
  return dataset;
}

std::set<uint32_t> rows_of(const Dataset& dataset, std::span<const uint32_t> samples) {
  std::set<uint32_t> rows;
  for (const uint32_t sample : samples)
    for (uint32_t i = 0; i < dataset.windows().span(); ++i)
      rows.insert(dataset.first_row(sample) + i);
  return rows;
}

bool meet(const std::set<uint32_t>& a, const std::set<uint32_t>& b) {
  return std::ranges::any_of(a, [&](uint32_t row) { return b.contains(row); });
}

}  // namespace

TEST_SUITE("data/windows") {
  TEST_CASE("cutter: finds the windows that the definition has, whatever is left out or late") {
    Random random(test::seed(), 61);
    for (int round = 0; round < 3000; ++round) {
      const WindowRules rules = random_rules(random);
      const std::vector<Row> series = random_series(random);
      WindowCutter cutter(rules);
      std::vector<uint32_t> starts;
      uint32_t taken = 0;
      for (const Row& row : series) {
        if (!row.counts) {
          cutter.leave_out();
          continue;
        }
        ++taken;
        if (cutter.add(rules.time.empty() ? std::nullopt : std::optional(row.time_s)))
          starts.push_back(taken - rules.span());
      }
      CAPTURE(round);
      REQUIRE(starts == expected_windows(rules, series));
    }
  }

  TEST_CASE("a window is [columns][rows], scaled by column, with the label of most of its rows") {
    set_log_level(LogLevel::kOff);
    const DataSchema schema =
        schema_of("classes = [\"off\", \"on\"]\nwindow = 4\nstride = 2\nscale = [2, 10]\n");
    const Dataset dataset = read_text(schema,
                                      "a,b,y\n1,10,on\n2,20,off\n3,30,on\n4,40,off\n5,50,off\n"
                                      "6,60,off\n7,70,on\n");
    Dataset scaled = dataset;
    scaled.set_scaling(schema.scale, schema.offset);
    REQUIRE(scaled.row_count() == 2);
    CHECK(scaled.shape()[0] == 2);
    CHECK(scaled.shape()[1] == 4);
    CHECK(test::all_features(scaled) == std::vector<float>{2, 4, 6, 8, 100, 200, 300, 400,  //
                                                           6, 8, 10, 12, 300, 400, 500, 600});
    // Two of each: the later one.
    CHECK(scaled.labels()[0] == 0);
    CHECK(scaled.labels()[1] == 0);
    CHECK(contains(describe(dataset), "2 windows of 2 x 4 (8 features"));
  }

  TEST_CASE("a missing row, a gap in time and a clock that goes back break a window") {
    set_log_level(LogLevel::kOff);
    const DataSchema schema = schema_of(
        "window = 2\nstride = 1\ntime = \"t\"\ngap_max = 1.5\nmissing = \"skip\"\n", "\"a\"");
    const Dataset dataset = read_text(
        schema,
        "t,a,y\n0,1,1\n1,2,2\n2,NA,3\n3,4,4\n4,5,5\n6,6,6\n7,7,7\n5,8,8\n2020-01-01 00:00:00,9,9\n"
        "2020-01-01T00:00:01.5Z,10,10\n");
    std::vector<float> numbers(dataset.numbers().begin(), dataset.numbers().end());
    CHECK(numbers == std::vector<float>{2, 5, 7, 10});
    CHECK(test::all_features(dataset) == std::vector<float>{1, 2, 4, 5, 6, 7, 9, 10});
    // Without times, rows that were left out may be passed over.
    const DataSchema bridging =
        schema_of("window = 2\nstride = 1\ngap_max = 1\nmissing = \"skip\"\n", "\"a\"");
    CHECK(read_text(bridging, "a,y\n1,1\nNA,2\n3,3\nNA,4\nNA,5\n6,6\n").row_count() == 1);
    ReadOptions options;
    options.schema = &bridging;
    const TempFolder folder;
    CHECK(contains(test::read_error(folder.write("short.csv", "a,y\n1,1\n"), options),
                   "the longest such run has 1"));
    options.schema = &schema;
    CHECK(contains(test::read_error(folder.write("bad.csv", "t,a,y\nnoon,1,1\n"), options),
                   "column 't': 'noon' is not a time"));
  }

  TEST_CASE("a forecast's label stands `horizon` rows behind the window, and never is a mean") {
    set_log_level(LogLevel::kOff);
    const DataSchema schema = schema_of(
        "task = \"forecast\"\nhorizon = 2\nwindow = 2\nstride = 1\nlabel_scale = 10\n"
        "missing = \"mean\"\nscale = [1, 1]\noffset = [0, -7]\n",
        "\"y\", \"a\"");
    const Dataset dataset = read_text(schema, "a,y\n1,1\n2,2\n,3\n4,4\n5,\n6,6\n7,7\n8,8\n9,9\n");
    Dataset scaled = dataset;
    scaled.set_number_scaling(schema.label_scale, schema.label_offset);
    REQUIRE(scaled.row_count() == 2);
    CHECK(test::all_features(scaled) == std::vector<float>{1, 2, 1, 2, 6, 7, 6, 7});
    const std::vector<uint32_t> both{0, 1};
    std::vector<float> targets(2), last(2);
    scaled.gather_targets(both, targets);
    scaled.gather_last(both, last);
    CHECK(targets == std::vector<float>{40, 90});
    CHECK(last == std::vector<float>{20, 70});
  }

  TEST_CASE("select: windows keep their rows, labels and scale, and only those rows are held") {
    const WindowRules rules{.rows = 3, .stride = 2, .horizon = 0, .time = {}};
    const Dataset whole = counting(100, rules);
    const std::vector<uint32_t> chosen{30, 3, 4};
    const Dataset some = whole.select(chosen);
    CHECK(test::all_features(some) == std::vector<float>{60, 61, 62, 6, 7, 8, 8, 9, 10});
    CHECK(some.bytes() < whole.bytes() / 2);
    CHECK(test::all_features(some.select(std::vector<uint32_t>{2})) ==
          std::vector<float>{8, 9, 10});
  }

  TEST_CASE("hold-out and shards: no row is in a training window and in a held-out one") {
    Random random(test::seed(), 62);
    for (int round = 0; round < 200; ++round) {
      WindowRules rules = random_rules(random);
      if (!rules.used()) rules.rows = 2;
      const Dataset dataset = counting(60 + pick(random, 600), rules);
      const HoldOut split = split_hold_out(dataset);
      CHECK_FALSE(meet(rows_of(dataset, split.training), rows_of(dataset, split.held_out)));
      if (dataset.row_count() < 40) continue;
      // Nothing is dropped that does not have to be.
      CHECK(split.held_out.size() >= 20);
      CHECK((split.training.size() + split.held_out.size() + rules.span() / rules.stride + 1) >=
            dataset.row_count());
      ShardOptions shard;
      shard.count = 1 + static_cast<uint32_t>(pick(random, 5));
      std::set<uint32_t> before;
      for (shard.index = 0; shard.index < shard.count; ++shard.index) {
        const std::vector<uint32_t> mine = shard_windows(dataset, shard).value();
        const std::set<uint32_t> rows = rows_of(dataset, mine);
        CHECK_FALSE(meet(rows, before));
        before.insert(rows.begin(), rows.end());
      }
      shard = {.index = 0, .count = 2, .dirichlet_alpha = 0.5};
      CHECK_FALSE(shard_windows(dataset, shard).has_value());
    }
  }

  // The figures are of a Python program that lists the windows by their definition.
  TEST_CASE("published tables: windows, breaks and labels are those of another program") {
    const std::string folder = test::real_file("tabular/");
    if (folder.empty()) return;
    set_log_level(LogLevel::kOff);
    const std::string occupancy = "classes = [\"0\", \"1\"]\ntime = \"date\"\n";
    const std::string sensors = "\"Temperature\", \"CO2\"";
    const auto occupancy_of = [&](const std::string& keys) {
      DataSchema schema = schema_of(occupancy + keys, sensors);
      schema.label = "Occupancy";
      return read(schema, folder + "occupancy-detection-datatraining.txt.gz");
    };
    CHECK(test::class_counts(occupancy_of("window = 16\nstride = 8\ngap_max = 90\n")) ==
          std::vector<size_t>{801, 215});
    CHECK(test::class_counts(occupancy_of("window = 4\nstride = 1\ngap_max = 60\n")) ==
          std::vector<size_t>{2564, 691});
    DataSchema room = schema_of(
        "classes = [\"0\", \"1\", \"2\", \"3\"]\ntime = \"Time\"\nwindow = 32\nstride = 16\n"
        "gap_max = 60\n",
        "\"S1_Temp\"");
    room.label = "Room_Occupancy_Count";
    CHECK(test::class_counts(read(room, folder + "room-occupancy-estimation.csv.gz")) ==
          std::vector<size_t>{350, 18, 32, 26});
    DataSchema beijing = schema_of(
        "task = \"forecast\"\nhorizon = 24\nwindow = 24\nstride = 1\nmissing = \"skip\"\n",
        "\"y\", \"TEMP\"");
    beijing.columns[0] = beijing.label = "pm2.5";
    const Dataset hours = read(beijing, folder + "beijing-pm25.csv.gz");
    REQUIRE(hours.row_count() == 34'573);
    std::vector<uint32_t> all(hours.row_count());
    std::iota(all.begin(), all.end(), 0u);
    std::vector<float> targets(all.size()), last(all.size());
    hours.gather_targets(all, targets);
    hours.gather_last(all, last);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      sum += static_cast<double>(targets[i]);
      const double change = static_cast<double>(targets[i]) - static_cast<double>(last[i]);
      squares += change * change;
    }
    CHECK(sum == 3'383'662);
    CHECK(squares == 356'939'545);
  }
}

}  // namespace paceline
