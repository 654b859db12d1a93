// `edge_server simulate EXPERIMENT.toml`, with a learning task of some hundred rows.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "runtime/base/files.h"
#include "runtime/base/log.h"
#include "server/command_experiment.h"
#include "simulate/experiment.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;

namespace {

constexpr const char* kGrid = "[grid]\npace = [\"bsp\", \"asp\"]\nrate = [0.02, 0.05]\n";

// Boards with every condition that there is.
constexpr const char* kBoards =
    "[[worker]]\ncount = 2\nstep_ms = 5\nstep_sigma = 0.2\njitter_ms = 2\nloss = 0.02\n"
    "duplication = 0.05\noutages = [\"1-1.2\"]\n"
    "[[worker]]\nstep_ms = 8\nslow_share = 0.2\nslow_s = 0.5\ncrash_at = 1.5\nback_after = 0.2\n"
    "[[worker]]\nstep_ms = 10\nlink = \"1mbit\"\nmiddle_factor = 2\nday_s = 1\nday_depth = 0.5\n"
    "joins_at = 0.3\nleaves_at = 2.5\n";

std::string experiment_text(const std::string& rest, const std::string& seconds = "3") {
  return "[experiment]\nseconds = " + seconds +
         "\nseed = 7\nrepeats = 2\ntargets = [0.6]\nevaluate_every_s = 0.25\n"
         "backend = \"reference\"\n"
         "[run.model]\ninput = [8]\nclasses = 3\n"
         "[[run.layer]]\ntype = \"dense\"\nunits = 16\n[[run.layer]]\ntype = \"relu\"\n"
         "[[run.layer]]\ntype = \"dense\"\nunits = 3\n"
         "[run.training]\nbatch = 16\nrate = 0.05\n"
         "[run.communication]\nfreq = \"fixed:4\"\ncodec_up = \"q8\"\ncodec_down = \"q8\"\n"
         "[run.server]\nexchange_deadline_ms = 1000\nheartbeat_ms = 200\n"
         "[data]\nfile = \"toy.csv\"\ncontrol_rows = 100\ndirichlet = 1.0\n" +
         rest;
}

// The toy fleet's rows as a table.
std::string toy_csv() {
  std::string csv = "a,b,c,d,e,f,g,h,label\n";
  const std::shared_ptr<LocalData> data = test::toy_data({.rows_per_worker = 600}, 0);
  std::vector<float> features(8);
  std::vector<int32_t> label(1);
  for (uint32_t row = 0; row < data->dataset.row_count(); ++row) {
    data->dataset.gather(std::span(&row, 1), features, label);
    for (const float value : features) csv += format_text("%.6f,", static_cast<double>(value));
    csv += format_text("%d\n", label[0]);
  }
  return csv;
}

class Folder {
 public:
  Folder() {
    set_log_level(LogLevel::kOff);
    folder_.write("toy.csv", toy_csv());
  }
  Result<ExperimentResult> run(const std::string& text, const std::string& out, uint32_t jobs,
                               bool stopped = false) {
    ExperimentOptions options;
    options.file = folder_.write("experiment.toml", text);
    options.out = folder_.file(out);
    options.jobs = jobs;
    options.trace_file = trace_;
    options.timeline_file = timeline_;
    const std::atomic<bool> stop = stopped;
    return run_experiment(options, stop);
  }
  std::string read(const std::string& name) const {
    const Bytes bytes = read_file(folder_.file(name), uint64_t{1} << 26).value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string path(const std::string& name) const { return folder_.file(name); }
  void trace_to(const std::string& trace, const std::string& timeline) {
    trace_ = folder_.file(trace);
    timeline_ = folder_.file(timeline);
  }

 private:
  test::TempFolder folder_;
  std::string trace_, timeline_;
};

std::string refusal(const std::string& text) {
  const Result<Experiment> experiment = parse_experiment(text, "grid.toml", ".");
  return experiment ? "accepted" : experiment.error().message();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("simulate/experiment") {
  TEST_CASE("one file gives one result: the same bytes twice, and with one and four threads") {
    Folder folder;
    const std::string text = experiment_text(std::string(kBoards) + kGrid);
    const ExperimentResult first = folder.run(text, "a", 1).value();
    CHECK(first.runs == 8);
    CHECK(first.done == 8);
    CHECK(first.cached == 0);
    CHECK(first.broken == "");
    CHECK(folder.run(text, "b", 4).value().table == first.table);
    CHECK(folder.run(text, "c", 1).value().table == first.table);
    for (const char* file : {"/runs.jsonl", "/table.csv", "/accuracy.svg"}) {
      CHECK(folder.read(std::string("a") + file) == folder.read(std::string("b") + file));
      CHECK(folder.read(std::string("a") + file) == folder.read(std::string("c") + file));
    }
    const std::string lines = folder.read("a/runs.jsonl");
    CHECK(std::ranges::count(lines, '\n') == 8);
    const nlohmann::json run = nlohmann::json::parse(lines.substr(0, lines.find('\n')));
    CHECK(run["settings"]["pace"] == "bsp");
    CHECK(run["seed"] == 7);
    CHECK(run["final_accuracy"].get<double>() > 0.5);
    CHECK(run["steps"].get<uint64_t>() > 100);
    CHECK(run["targets"][0]["bytes"].get<uint64_t>() > 0);
    CHECK(run["model_checksum"].get<std::string>().size() == 8);
    const nlohmann::json& begin = run["decisions"][0];
    CHECK(begin["seconds"] == 0.0);
    CHECK(begin["tau"].get<int>() > 0);
    CHECK(begin["pace"] == "bsp");
    CHECK(begin["reasons"].size() == 4);
    for (const nlohmann::json& decision : run["decisions"])
      CHECK_FALSE(decision["reasons"][0].get<std::string>().empty());
  }

  TEST_CASE("what is done is not run again, and what has changed is") {
    Folder folder;
    const std::string boards = "[[worker]]\ncount = 3\n";
    const auto grid = [&](const char* rates) {
      return experiment_text(boards + "[grid]\nrate = [" + rates + "]\n", "1");
    };
    // Stopped before its first run, then in the middle of the grid, so to speak.
    CHECK(folder.run(grid("0.02, 0.05"), "out", 1, true).value().done == 0);
    CHECK(folder.run(grid("0.02"), "out", 1).value().cached == 0);
    const ExperimentResult more = folder.run(grid("0.05, 0.02"), "out", 1).value();
    CHECK(more.done == 4);
    CHECK(more.cached == 2);
    const std::string lines = folder.read("out/runs.jsonl");
    const ExperimentResult again = folder.run(grid("0.05, 0.02"), "out", 1).value();
    CHECK(again.cached == 4);
    CHECK(again.table == more.table);
    CHECK(folder.read("out/runs.jsonl") == lines);
    CHECK(folder.run(grid("0.05, 0.03"), "out", 1).value().cached == 2);
    const std::string slower = experiment_text("[[worker]]\ncount = 3\nstep_ms = 6\n", "1");
    CHECK(folder.run(slower, "out", 1).value().cached == 0);
  }

  TEST_CASE("a run's file that was damaged counts as none") {
    Folder folder;
    const std::string text = experiment_text("", "1");
    const std::string table = folder.run(text, "out", 1).value().table;
    const std::string lines = folder.read("out/runs.jsonl");
    for (const std::string content : {"", "{}\n", "{\"point\": 0"}) {
      for (const auto& entry : std::filesystem::directory_iterator(folder.path("out/runs")))
        REQUIRE(write_file_atomically(entry.path(), std::as_bytes(std::span(content))).ok());
      const ExperimentResult again = folder.run(text, "out", 1).value();
      CHECK(again.cached == 0);
      CHECK(again.table == table);
    }
    CHECK(folder.read("out/runs.jsonl") == lines);
  }

  TEST_CASE("a trace has no gaps and no overlaps, and the timeline a lane for each board") {
    Folder folder;
    folder.trace_to("trace.jsonl", "timeline.svg");
    CHECK(folder.run(experiment_text(kBoards), "out", 1).value().broken == "");
    const std::string lines = folder.read("trace.jsonl");
    std::map<std::string, double> end;
    std::map<std::string, double> total;
    for (size_t begin = 0; begin < lines.size();) {
      const size_t line_end = lines.find('\n', begin);
      const nlohmann::json span = nlohmann::json::parse(lines.substr(begin, line_end - begin));
      begin = line_end + 1;
      const auto worker = span["worker"].get<std::string>();
      const auto from = span["from"].get<double>(), to = span["to"].get<double>();
      if (end.contains(worker) && worker != "board3") CHECK(from == end[worker]);
      CHECK(to > from);
      end[worker] = to;
      total[span["what"].get<std::string>()] += to - from;
    }
    CHECK(end.size() == 4);
    CHECK(end["board4"] < 2.7);
    for (const char* what : {"compute", "send", "fetch", "wait"}) CHECK(total[what] > 0.0);
    for (const auto& [worker, at] : end)
      CHECK(contains(folder.read("timeline.svg"), ">" + worker + "</text>"));
  }

  TEST_CASE("without training: who waits for whom") {
    Folder folder;
    const std::string text =
        "[experiment]\nseconds = 1000\ntrain = false\n[run.model]\ninput = [8]\nclasses = 3\n"
        "[[run.layer]]\ntype = \"dense\"\nunits = 3\n"
        "[[worker]]\ncount = 2\nstep_ms = 1000\n[[worker]]\nstep_ms = 2000\n[[worker]]\n"
        "step_ms = 4000\n[grid]\npace = [\"bsp\", \"asp\"]\n";
    const ExperimentResult result = folder.run(text, "out", 1).value();
    CHECK(result.done == 2);
    const std::string lines = folder.read("out/runs.jsonl");
    CHECK(contains(lines, "\"pace\":\"bsp\",\"workers\":4"));
    CHECK(contains(lines, "\"iterations\":2750"));
    CHECK_FALSE(folder.run(text + "rate = [0.1]\n", "out", 1).has_value());
  }

  TEST_CASE("the example is a file that is accepted") {
    const Result<Experiment> example = parse_experiment(kExampleExperiment, "example.toml", ".");
    REQUIRE_MESSAGE(example.has_value(), refusal(kExampleExperiment));
    CHECK(example->worker_plans.size() == 4);
    CHECK(example->run_count() == 4);
    CHECK(plan_run(*example, 3).value().seed == 2);
    CHECK(plan_run(*example, 3).value().server.pace == "compat");
    CHECK(plan_run(*example, 1).value().server.run.training.seed == 2);
  }

  TEST_CASE("a grid is the product of its lists, the last one changing first") {
    const std::string text = experiment_text(
        "[[worker]]\nstep_ms = 5\n[[worker]]\nstep_ms = 10\n"
        "[grid]\nworkers = [2, 5]\ncodec = [\"s1r\", \"q8\"]\nlink = [\"1mbit\"]\nbatch = 8\n");
    const Experiment experiment = parse_experiment(text, "grid.toml", ".").value();
    REQUIRE(experiment.run_count() == 8);
    const RunPlan last = plan_run(experiment, 7).value();
    CHECK(last.workers.size() == 5);
    CHECK(last.workers[4].speed.step_ms == 5);
    CHECK(last.workers[3].speed.step_ms == 10);
    CHECK(last.workers[4].link.rate == "1mbit");
    CHECK(last.server.codec_up == CodecId::kQ8);
    CHECK(last.server.codec_down == CodecId::kQ8);
    CHECK(last.server.run.training.batch == 8);
    CHECK(plan_run(experiment, 1).value().workers.size() == 2);
    CHECK(plan_run(experiment, 0).value().identity() != plan_run(experiment, 1).value().identity());
  }

  TEST_CASE("a wrong file is refused with line and column, and the nearest key") {
    // What is wrong stands in the last line but so many; the message begins with its place.
    const auto refused_at = [](const std::string& rest, int column, const char* part,
                               int lines_after = 0) {
      const std::string text = experiment_text(rest);
      const auto line = std::ranges::count(text, '\n') - lines_after;
      const std::string message = refusal(text);
      const bool right =
          message.starts_with(format_text("grid.toml:%d:%d: ", static_cast<int>(line), column));
      CHECK_MESSAGE((right && contains(message, part)), message);
    };
    refused_at("[[worker]]\nstep_mss = 3\n", 1, "has no key 'step_mss'; did you mean 'step_ms'?");
    refused_at("[[worker]]\nstep_ms = -3\n", 11, "a number from 0.001");
    refused_at("[gird]\npace = [\"bsp\"]\n", 1, "'gird'; did you mean 'grid'?", 1);
    refused_at("[grid]\npase = [\"bsp\"]\n", 1, "has no key 'pase'; did you mean 'pace'?");
    refused_at("[grid]\npace = [\"bsp\", \"bps\"]\n", 8, "bps");
    refused_at("[grid]\ncodec = [\"q9\"]\n", 9, "q9");
    refused_at("[grid]\ncodec_down = [\"s1\"]\n", 14, "s1");
    refused_at("[grid]\nlink = [\"fast\"]\n", 8, "not a rate");
    refused_at("[grid]\nworkers = [2.5]\n", 11, "whole numbers");
    refused_at("[[worker]]\nlink = \"fast\"\n", 8, "not a rate");
    refused_at("[[worker]]\noutages = [\"20-10\"]\n", 11, "an outage is written \"10-20\"");
    refused_at("[[worker]]\nback_after = 3\n", 14, "needs crash_at");
    refused_at("[[worker]]\nname = \"a\"\n[[worker]]\nname = \"a\"\n", 8, "another worker's");
    CHECK(contains(refusal("[experiment]\nseconds = 1\n"), "[run] has to be either"));
    CHECK(contains(refusal("[run]\nfile = \"no-such-file.toml\"\n"), "no-such-file.toml"));
  }

  TEST_CASE("lines of an inline run are those of the experiment's file") {
    for (const auto& [right, wrong, part] :
         {std::tuple("batch = 16", "bacth = 16", "did you mean 'batch'?"),
          std::tuple("freq = \"fixed:4\"", "freq = \"fixd:4\"", "fix"),
          std::tuple("units = 16", "units = 0", "units"),
          std::tuple("heartbeat_ms = 200", "heartbeat_ms = 1", "from 20")}) {
      std::string text = experiment_text("");
      const size_t at = text.find(right);
      text.replace(at, std::string(right).size(), wrong);
      const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
      const std::string message = refusal(text);
      CHECK_MESSAGE(contains(message, part), message);
      const bool placed = contains(message, format_text(":%d:", static_cast<int>(line))) ||
                          contains(message, format_text("line %d,", static_cast<int>(line)));
      CHECK_MESSAGE((placed || contains(part, "fix")), message);
    }
  }
}
