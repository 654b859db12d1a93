#include "server/report/summary.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/files.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

RunSummary fast_run() {
  RunSummary run;
  run.name = "compat";
  run.accuracy = 0.861;
  run.seconds = 40;
  run.bytes_up = 3'000'000;
  run.bytes_down = 12'000'000;
  run.exchanges = 1200;
  run.rounds = 300;
  run.workers = {{"pi", 0.02, 1200}, {"jetson", 0.12, 5231}};
  run.model_checksum = "89abcdef";
  run.settings = {"compat", "trend", "s1", "q8", "1 Mbit/s", UINT64_MAX};
  run.codecs = {{0, "s1r", "s1r", "fixed", "fixed"}, {7.5, "s1r", "q8", "fixed", "it \"lags\""}};
  run.curve = {{1, 1000, 0.5, 1.5}, {40, 15'000'000, 0.861, NAN}};
  return run;
}

RunSummary slow_run() {
  RunSummary run = fast_run();
  run.name = "bsp";
  run.accuracy = 0.863;
  run.seconds = 100;
  run.bytes_up = 96'000'000;
  run.workers = {{"pi", 0.61, 1875}, {"jetson", 0.81, 1875}};
  run.settings.pace = "bsp";
  return run;
}

size_t character_count(const std::string& text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

}  // namespace

TEST_SUITE("report/summary") {
  TEST_CASE("json: holds every field, 64-bit numbers exactly, and the baseline in the same form") {
    const RunSummary run = fast_run(), baseline = slow_run();
    const auto json = nlohmann::json::parse(summary_json(run, &baseline));
    CHECK(json["accuracy"] == 0.861);
    CHECK(json["seconds"] == 40);
    CHECK(json["bytes_up"] == 3'000'000);
    CHECK(json["bytes_down"] == 12'000'000);
    CHECK(json["exchanges"] == 1200);
    CHECK(json["rounds"] == 300);
    CHECK(json["waiting_share"]["pi"] == 0.02);
    CHECK(json["training_steps"]["jetson"] == 5231);
    CHECK(json["model_checksum"] == "89abcdef");
    CHECK(json["settings"]["codec_up"] == "s1");
    CHECK(json["settings"]["seed"] == UINT64_MAX);
    CHECK(json["codecs"].size() == 2);
    CHECK(json["codecs"][1]["seconds"] == 7.5);
    CHECK(json["codecs"][1]["up"] == "s1r");
    CHECK(json["codecs"][1]["down"] == "q8");
    CHECK(json["codecs"][1]["reason_up"] == "fixed");
    CHECK(json["codecs"][1]["reason_down"] == "it \"lags\"");
    CHECK(json["curve"].size() == 2);
    CHECK(json["curve"][1]["bytes_total"] == 15'000'000);
    CHECK(json["curve"][1]["loss"].is_null());
    CHECK(json["baseline"]["waiting_share"]["pi"] == 0.61);
    CHECK(json["baseline"]["settings"]["pace"] == "bsp");
    CHECK(nlohmann::json::parse(summary_json(run, nullptr))["baseline"].is_null());
  }

  TEST_CASE("json: an empty run and hostile names are still JSON") {
    RunSummary run;
    CHECK(nlohmann::json::parse(summary_json(run, nullptr))["accuracy"].is_null());
    run.workers = {{"\xFF\"\n", NAN, 0}};
    CHECK(nlohmann::json::parse(summary_json(run, &run))["waiting_share"].size() == 1);
  }

  TEST_CASE("a target is reached by the mean of three evaluations, not by a lucky one") {
    RunSummary run;
    run.target_accuracy = 0.84;
    run.curve = {{1, 10, 0.80, 1}, {2, 20, 0.86, 1}, {3, 30, 0.82, 1}, {4, 40, 0.845, 1}};
    REQUIRE(first_reaching(run, 0.84) == &run.curve[3]);
    CHECK(first_reaching(run, 0.85) == nullptr);
    CHECK(late_accuracy(run) == doctest::Approx(0.83125));
    const auto json = nlohmann::json::parse(summary_json(run, nullptr));
    CHECK(json["reached"]["seconds"] == 4.0);
    CHECK(json["reached"]["bytes_total"] == 40);
    RunSummary never = run;
    never.curve.resize(2);
    CHECK(contains(summary_table(run, &never, false), "never"));
  }

  TEST_CASE("json: the file is what summary_json gives") {
    const test::TempFolder folder;
    const RunSummary run = fast_run();
    REQUIRE(write_summary(folder.file("summary.json"), run, nullptr).ok());
    const Bytes file = read_file(folder.file("summary.json"), 1 << 20).value();
    CHECK(std::string(reinterpret_cast<const char*>(file.data()), file.size()) ==
          summary_json(run, nullptr));
    CHECK_FALSE(write_summary(folder.file("none/summary.json"), run, nullptr).ok());
  }

  TEST_CASE("table: both runs side by side with what was saved") {
    const RunSummary run = fast_run(), baseline = slow_run();
    const std::string table = summary_table(run, &baseline, false);
    CAPTURE(table);
    CHECK(contains(table, "compat"));
    CHECK(contains(table, "-0.2 points"));
    CHECK(contains(table, "2.50x less"));
    CHECK(contains(table, "32x less"));
    CHECK(contains(table, "the same"));
    CHECK(contains(table, "-64.0 points"));
    CHECK(contains(table, "baseline: pace bsp"));
    CHECK(contains(table, "model 89abcdef"));
    CHECK_FALSE(contains(table, "\x1b"));
    CHECK(contains(summary_table(run, &baseline, true), "\x1b[32m32x less\x1b[0m"));
    CHECK_FALSE(contains(summary_table(run, nullptr, false), "difference"));
  }

  TEST_CASE("table: columns are aligned by characters, whatever the names are") {
    RunSummary run = fast_run();
    run.workers.push_back(
        {"gew\xC3\xA4"
         "chshaus \x1b[31m\xC2\x9B red",
         1, 7});
    const std::string table = summary_table(run, nullptr, false);
    CHECK_FALSE(contains(table, "\x1b"));
    CHECK_FALSE(contains(table, "\xC2\x9B"));
    std::istringstream lines(table.substr(table.find("worker")));
    std::string heading, line;
    std::getline(lines, heading);
    for (size_t i = 0; i < run.workers.size(); ++i) {
      std::getline(lines, line);
      CHECK(character_count(line) == character_count(heading));
    }
  }

  TEST_CASE("table: what was never measured is said to be not known") {
    const RunSummary run;
    const std::string table = summary_table(run, &run, false);
    CHECK(contains(table, "not known"));
    CHECK_FALSE(contains(table, "nan"));
    CHECK_FALSE(contains(table, "inf"));
  }

  TEST_CASE("plot: one curve a run in two panels") {
    const RunSummary run = fast_run(), baseline = slow_run();
    const std::string svg = summary_plot(run, &baseline);
    CHECK(contains(svg, "Accuracy against time"));
    CHECK(contains(svg, "Accuracy against bytes"));
    CHECK(contains(svg, ">bsp<"));
    CHECK_FALSE(contains(summary_plot(run, nullptr), ">bsp<"));
  }

  TEST_CASE("colour: only on a terminal and never with NO_COLOR") {
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    unsetenv("NO_COLOR");
    CHECK_FALSE(colour_wanted(pipe_ends[1]));
    if (terminal >= 0 && isatty(terminal) == 1) {
      CHECK(colour_wanted(terminal));
      setenv("NO_COLOR", "1", 1);
      CHECK_FALSE(colour_wanted(terminal));
      unsetenv("NO_COLOR");
    }
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    if (terminal >= 0) close(terminal);
  }
}

}  // namespace paceline
