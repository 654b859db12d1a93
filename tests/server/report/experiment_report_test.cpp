// Tables, CSV and plots of an experiment, and the line of JSON that a run is kept as.
#include "server/report/experiment_report.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

RunRecord record_of(size_t point, const char* pace, uint64_t seed, double accuracy) {
  RunRecord record;
  record.point = point;
  record.settings = {{"pace", pace}};
  record.seed = seed;
  record.seconds = 4;
  record.final_accuracy = record.best_accuracy = accuracy;
  record.bytes_up = 1000 * seed;
  record.checksum = "0123abcd";
  for (uint64_t i = 0; i < 5; ++i)
    record.curve.push_back(
        {static_cast<double>(i), 100 * (i + 1), i, accuracy * static_cast<double>(i) / 4, NAN});
  record.targets = {target_record(record.curve, 0.4)};
  return record;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_SUITE("report/experiment") {
  TEST_CASE("a target is reached where the mean of three points is, or never") {
    const RunRecord record = record_of(0, "bsp", 1, 0.8);
    CHECK(record.targets[0].seconds == 3);
    CHECK(record.targets[0].bytes == 400);
    CHECK(record.targets[0].exchanges == 3);
    CHECK(std::isnan(target_record(record.curve, 0.61).seconds));
    CHECK(std::isnan(target_record({}, 0.1).seconds));
  }

  TEST_CASE("a record comes back from its line, whatever is in it") {
    Random random(test::seed(), 5);
    for (int i = 0; i < 200; ++i) {
      RunRecord record = record_of(static_cast<size_t>(random.below(100)), "a \"b\"\n\t\x7f",
                                   random.next(), random.unit());
      record.settings.emplace_back("rate", format_text("%.17g", random.unit()));
      for (RecordPoint& point : record.curve) {
        point.seconds = random.unit() * 1e6;
        point.bytes = random.next() >> random.below(60);
        if (random.below(4) == 0) point.accuracy = NAN;
      }
      if (random.below(3) == 0) record.targets[0].seconds = NAN;
      while (random.below(3) > 0)
        record.decisions.push_back({random.unit(), "compat", 16, "s1r", "q8", {"a \"link\"", ""}});
      record.broken = random.below(2) == 0 ? "" : "seed 1: it broke";
      const std::string line = record_json(record);
      CHECK_FALSE(contains(line, "\n"));
      const Result<RunRecord> back = parse_record(line);
      REQUIRE(back.has_value());
      CHECK(record_json(*back) == line);
      CHECK(back->settings == record.settings);
    }
  }

  TEST_CASE("no cut or changed line is taken for a record with other content, none crashes") {
    const std::string line = record_json(record_of(1, "bsp", 7, 0.5));
    for (size_t length = 0; length < line.size(); ++length)
      CHECK_FALSE(parse_record(std::string_view(line).substr(0, length)).has_value());
    for (const char* wrong : {"[]", "3", "null", "{}", "{\"point\":-1}", "\xff"})
      CHECK(parse_record(wrong).error().code() == Code::kCorrupt);
  }

  TEST_CASE("the table has a line a point, mean and spread; broken runs count nowhere") {
    std::vector<RunRecord> runs = {record_of(0, "bsp", 1, 0.6), record_of(0, "bsp", 2, 0.8),
                                   record_of(1, "asp", 1, 0.3), record_of(1, "asp", 2, 0.9)};
    runs[3].broken = "seed 2";
    const std::string table = experiment_table(runs);
    CHECK(std::ranges::count(table, '\n') == 3);
    CHECK(contains(table, "pace bsp"));
    CHECK(contains(table, "70 % +- 14.1 %"));
    CHECK(contains(table, "pace asp"));
    CHECK(contains(table, "never"));
    CHECK_FALSE(contains(table, "90 %"));
    const std::string csv = experiment_csv(runs);
    CHECK(std::ranges::count(csv, '\n') == 3);
    CHECK(csv.starts_with("pace,runs,final_accuracy_mean,final_accuracy_deviation,"));
    CHECK(contains(csv, "\nbsp,2,0.7,0.1414213562,"));
    CHECK(contains(csv, "\nasp,1,0.3,,"));
    CHECK(experiment_table({}).find("final") != std::string::npos);
    CHECK(experiment_csv({}).starts_with("runs,"));
  }

  TEST_CASE("cells of the CSV file are quoted where they have to be") {
    std::vector<RunRecord> runs = {record_of(0, "dssp:3,12", 1, 0.6)};
    runs[0].settings[0].second = "a,\"b\"";
    CHECK(contains(experiment_csv(runs), "\n\"a,\"\"b\"\"\",1,"));
  }

  TEST_CASE("the plot has a line a point in both panels, and a band where there are repeats") {
    const std::vector<RunRecord> runs = {record_of(0, "bsp", 1, 0.6), record_of(0, "bsp", 2, 0.8),
                                         record_of(1, "asp", 1, 0.3)};
    const std::string svg = experiment_plot("a <title>", runs);
    CHECK(contains(svg, "a &lt;title&gt;"));
    CHECK(count_of(svg, "<polyline") == 4);
    CHECK(count_of(svg, "<polygon") == 2);
    CHECK_FALSE(contains(svg, "nan"));
    CHECK(contains(experiment_plot("none", {}), "no data yet"));
  }
}
