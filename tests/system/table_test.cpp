// From a stranger's tables to predictions, with no file written by hand.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <functional>

#include "runtime/base/random.h"
#include "runtime/data/load.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr uint32_t kRows = 400;
const char* const kStates[] = {"off", "idle", "busy"};

// A machine's sound and shake by state; columns in the order of `columns`, only the states of the
// bits in `states`.
std::string machine_table(const std::vector<std::string>& columns, char separator, uint32_t states,
                          uint64_t stream) {
  Random random(test::seed(), stream);
  std::string text;
  for (const std::string& name : columns) text += (text.empty() ? "" : " ") + name + separator;
  text.back() = '\n';
  for (uint32_t row = 0; row < kRows; ++row) {
    uint64_t state = random.below(3);
    while ((states >> state & 1) == 0) state = random.below(3);
    const double level = static_cast<double>(state);
    for (const std::string& name : columns) {
      if (name == "time") text += std::to_string(row);
      if (name == "pressure")
        text +=
            format_text("%.1f", 101325 + 40 * level + 10 * static_cast<double>(random.symmetric()));
      if (name == "sound")
        text += format_text("%.4f", 0.01 * level + 0.004 * static_cast<double>(random.symmetric()));
      if (name == "note") text += "x";
      if (name == "state") text += kStates[state];
      text += separator;
    }
    text.back() = '\n';
  }
  return text;
}

bool says(const std::string& text, std::string_view words) {
  return text.find(words) != std::string::npos;
}

double accuracy_of(const std::string& out) {
  const std::string word = "# accuracy ";
  const size_t place = out.rfind(word);
  return place == std::string::npos ? -1 : std::stod(out.substr(place + word.size()));
}

std::vector<std::string> lines_of_file(const std::string& path) {
  const Bytes bytes = load_file(path, 1 << 26).value();
  return lines_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Of a table with `separator` only these columns, and only rows that have a value in each.
std::vector<std::string> columns_of(const std::vector<std::string>& lines, char separator,
                                    const std::vector<std::string>& names) {
  const auto split = [&](const std::string& line) {
    std::vector<std::string> cells(1);
    for (const char c : line)
      if (c == separator)
        cells.emplace_back();
      else if (c != '\r')
        cells.back() += c;
    return cells;
  };
  const std::vector<std::string> header = split(lines[0]);
  std::vector<std::string> chosen;
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = split(line);
    std::string text;
    bool whole = cells.size() == header.size();
    for (size_t i = 0; whole && i < names.size(); ++i) {
      const auto column = std::ranges::find(header, names[i]) - header.begin();
      const std::string& cell = cells[static_cast<size_t>(column)];
      whole = !cell.empty() && !cell.starts_with("-200");
      text += (i == 0 ? "" : std::string(1, separator)) + cell;
    }
    if (whole) chosen.push_back(text);
  }
  return chosen;
}

struct Asked {
  std::string answer;  // the last line of predict
  std::string server;  // what serve said
  std::string worker;  // and the worker
};

// Of a run that init proposes for the rows that `is_test` leaves, with one worker, on the others.
//   layers  in place of the proposed ones; empty: those
Asked ask(Site& site, const std::string& name, const std::vector<std::string>& lines,
          const std::function<bool(size_t row)>& is_test,
          const std::vector<std::string>& init_options = {}, const std::string& layers = "") {
  std::string training = lines[0] + "\n", test = training;
  for (size_t i = 1; i < lines.size(); ++i) (is_test(i - 1) ? test : training) += lines[i] + "\n";
  const std::string sample = site.write("sample.csv", training), run = site.file("run.toml");
  std::vector<std::string> arguments = {"init", site.file("fleet"), "--from", sample, "--out",
                                        run,    "--force"};
  arguments.insert(arguments.end(), init_options.begin(), init_options.end());
  const Finished init = site.run_server(arguments);
  REQUIRE_MESSAGE(init.exit == 0, init.err);
  if (!layers.empty()) {
    std::string text = file_text(run);
    const size_t first = text.find("[[layer]]");
    text.replace(first, text.find("[training]") - first, layers);
    site.write("run.toml", text);
  }
  Process server = site.server_of(run, {"--state", site.file(name)});
  Process worker = site.worker("only", {"--data", sample});
  CHECK(worker.wait_exit() == 0);
  CHECK(server.wait_exit() == 0);
  const Finished said = site.run_worker(
      {"predict", "--state", site.file(name), "--data", site.write("test.csv", test)});
  CHECK_MESSAGE(said.exit == 0, said.err);
  std::printf("%s: %s", name.c_str(), (lines_of(said.out).back() + "\n").c_str());
  return {lines_of(said.out).back(), server.err(), worker.err()};
}

double accuracy_on(Site& site, const std::string& name, const std::vector<std::string>& lines,
                   const std::function<bool(size_t row)>& is_test) {
  return accuracy_of(ask(site, name, lines, is_test).answer);
}

}  // namespace

TEST_SUITE("system/table") {
  TEST_CASE("init, serve, two boards with other columns and other classes, predict") {
    Site site;
    const std::string sample =
        site.write("sample.csv", machine_table({"time", "sound", "pressure", "state"}, ',', 7, 1));
    const std::string run = site.file("run.toml");
    const Finished init = site.run_server(
        {"init", site.file("fleet"), "--from", sample, "--out", run, "--workers", "2"});
    REQUIRE_MESSAGE(init.exit == 0, init.err);
    CHECK(init.out.find("time: rises or falls with every row") != std::string::npos);
    CHECK(site.run_server({"init", site.file("fleet"), "--from", sample, "--out", run}).exit == 2);

    Process server = site.server_of(run, {"--state", site.file("state"), "--rounds", "400"});
    // Its table has none of the run's columns.
    Process stranger = site.worker("stranger");
    CHECK(stranger.wait_exit() == 2);
    CHECK_MESSAGE(stranger.err().find("no column is named 'sound'") != std::string::npos,
                  stranger.err());
    // Neither has seen every class, and the second one calls the label otherwise.
    const std::string quiet =
        site.write("quiet.csv", machine_table({"state", "pressure", "note", "sound"}, ';', 3, 2));
    std::string table = machine_table({"pressure", "state", "sound"}, '\t', 6, 3);
    table.replace(table.find("state"), 5, "label");
    const std::string loud = site.write("loud.csv", table + "101325\tbussy\t0\n");
    const std::string kept = site.file("kept");
    Process a = site.worker("a", {"--data", quiet, "--state", kept});
    CHECK(server.wait_err("worker a joins with 360 rows"));
    Process b = site.worker("b", {"--data", loud, "--label-column", "label"});
    CHECK(b.wait_err("'bussy' is no class of this run; did you mean 'busy'?"));
    CHECK(server.wait_err("worker b joins with 360 rows"));
    for (Process* worker : {&a, &b}) CHECK_MESSAGE(worker->wait_exit() == 0, worker->err());
    REQUIRE(server.wait_exit() == 0);

    const std::string model = site.file("state") + "/model.safetensors";
    const std::string fresh =
        site.write("fresh.csv", machine_table({"state", "sound", "pressure", "time"}, ',', 7, 4));
    const Finished said = site.run_worker({"predict", "--model", model, "--data", fresh});
    CHECK_MESSAGE(said.exit == 0, said.err);
    CHECK(lines_of(said.out).size() == kRows + 2);
    CHECK_MESSAGE(accuracy_of(said.out) > 0.9, tail_of(said.out));
    // The board holds the same model, and the run's file says the same as the model's.
    const Finished on_board = site.run_worker({"predict", "--state", kept, "--data", fresh});
    CHECK(accuracy_of(on_board.out) > 0.9);
    const Finished with_run =
        site.run_worker({"predict", "--model", model, "--run", run, "--data", fresh});
    CHECK(accuracy_of(with_run.out) == accuracy_of(said.out));
  }

  TEST_CASE("predict: answers rows as they come, complains of bad ones and goes on") {
    Site site;
    const std::string sample =
        site.write("sample.csv", machine_table({"sound", "pressure", "state"}, ',', 7, 1));
    const std::string run = site.file("run.toml");
    REQUIRE(site.run_server({"init", site.file("fleet"), "--from", sample, "--out", run}).exit ==
            0);
    const std::string state = site.file("state");
    Process server = site.server_of(run, {"--state", state});
    CHECK(site.worker("only", {"--data", sample}).wait_exit() == 0);
    REQUIRE(server.wait_exit() == 0);

    const std::string live = site.write("live.csv", "pressure;sound\n101325,5;0,0\n101405;");
    Process predict = site.start_worker(
        {"predict", "--state", state, "--data", live, "--follow", "--json"}, "predict");
    CHECK(predict.wait_out("{\"line\":2,\"label\":\"off\""));
    // The row is whole only now; the next ones are two bad ones and a good one.
    site.append("live.csv", "0,02\n101405;loud\n101405\n101405;0,02\n");
    CHECK(predict.wait_out("{\"line\":3,\"label\":\"busy\""));
    CHECK(predict.wait_out("{\"line\":6,\"label\":\"busy\""));
    CHECK(says(predict.err(), "live.csv: line 4, column 'sound': 'loud' is not a number"));
    CHECK(says(predict.err(), "live.csv: line 5: 1 cells, the header names 2"));
    predict.signal(SIGTERM);
    CHECK(predict.wait_exit() == 128 + SIGTERM);

    const Finished whole = site.run_worker({"predict", "--state", state, "--data", live});
    CHECK(whole.exit == 2);
    CHECK(says(whole.err, "2 of 5 rows could not be read"));
    CHECK(lines_of(whole.out).size() == 1 + 3);
    const Finished no_model = site.run_worker({"predict", "--model", sample, "--data", live});
    CHECK(no_model.exit == 2);
    CHECK(says(no_model.err, "no safetensors file"));
    CHECK(site.run_worker({"predict", "--data", live}).exit == 2);
  }

  TEST_CASE("a label of numbers: a fleet's net is as good as NumPy's on the same rows") {
    const char* folder = std::getenv("PACELINE_TEST_DATA");
    if (folder == nullptr) {
      std::printf("skipped: no data\n");
      return;
    }
    Site site;
    // Carbon monoxide from five sensors, temperature and humidity; the last fifth of the hours
    // asked.
    const std::vector<std::string> lines =
        columns_of(lines_of_file(std::string(folder) + "/tabular/AirQualityUCI.csv.gz"), ';',
                   {"CO(GT)", "PT08.S1(CO)", "PT08.S2(NMHC)", "PT08.S3(NOx)", "PT08.S4(NO2)",
                    "PT08.S5(O3)", "T", "RH", "AH"});
    const auto late = [&](size_t row) { return row >= (lines.size() - 1) * 4 / 5; };
    const auto rmse_of = [&](const std::string& name, const std::string& layers) {
      const Asked asked = ask(site, name, lines, late, {"--label", "CO(GT)"}, layers);
      CHECK(asked.server.find("fleet r2 0.") != std::string::npos);
      const std::string word = "# rmse ";
      const size_t place = asked.answer.rfind(word);
      return place == std::string::npos ? -1 : std::stod(asked.answer.substr(place + word.size()));
    };
    // NumPy, numpy.linalg.lstsq on the 90 % of rows that the worker trains on: 0.4711.
    const double linear = rmse_of("linear", "[[layer]]\ntype = \"dense\"\nunits = 1\n");
    CHECK(linear > 0.465);
    CHECK(linear < 0.485);
    // NumPy, the net that init proposes, without its weight decay, five seeds: 0.605 to 0.669.
    CHECK(rmse_of("net", "") < 0.63);
  }

  TEST_CASE("a forecast that init proposes beats the last value, and predict tells both") {
    Site site;
    // A wave with noise: what comes next follows from the window, not from its last row alone.
    Random random(test::seed(), 9);
    std::vector<std::string> lines = {"level,other"};
    double phase = 0, turn = 0.3;
    for (int row = 0; row < 3000; ++row) {
      phase += turn + 0.05 * static_cast<double>(random.symmetric());
      const double wave = phase - 6.2831853 * std::floor(phase / 6.2831853) - 3.1415927;
      lines.push_back(format_text("%.4f,%.3f", wave * (9.8696 - wave * wave),
                                  static_cast<double>(random.symmetric())));
    }
    const Asked asked = ask(site, "wave", lines, [](size_t row) { return row >= 2400; },
                            {"--forecast", "level", "--horizon", "4"});
    const auto number_behind = [&](const std::string& word) {
      const size_t place = asked.answer.find(word);
      REQUIRE_MESSAGE(place != std::string::npos, asked.answer);
      return std::stod(asked.answer.substr(place + word.size()));
    };
    CHECK(number_behind("# rmse ") < 0.5 * number_behind("same as last: rmse "));
    // 600 rows make 581 windows of 16 with 4 rows behind.
    CHECK(says(asked.answer, ": 581 rows"));
    CHECK(says(asked.worker, "forecast off by "));
  }

  TEST_CASE(
      "windows that init proposes by a column of times: a gap breaks them, predict says where") {
    Site site;
    Random random(test::seed(), 10);
    // Which of two things shakes shows in how fast it shakes, not in a row's value.
    std::vector<std::string> lines = {"ms,x,what"};
    int64_t ms = 1'700'000'000'000;
    for (int row = 0; row < 4000; ++row) {
      ms += row % 1000 == 999 ? 5000 : 10;
      const bool fast = row / 250 % 2 == 1;
      const double level =
          (row / (fast ? 2 : 8) % 2 == 1 ? 1 : -1) + 0.3 * static_cast<double>(random.symmetric());
      lines.push_back(
          format_text("%lld,%.3f,%s", static_cast<long long>(ms), level, fast ? "fast" : "slow"));
    }
    const Asked asked = ask(site, "shake", lines, [](size_t row) { return row >= 3000; });
    CHECK_MESSAGE(accuracy_of(asked.answer) > 0.9, asked.answer);
    // A window has 128 rows, the next begins 32 later; the last 1,000 rows are one series but for
    // the last of them; the worker's 3,000 rows have a gap in each thousand.
    CHECK(says(asked.answer, "of 28 rows"));
    CHECK(says(asked.worker, "3 breaks"));
  }

  TEST_CASE(
      "published tables: what init alone proposes is as good as nets that were tuned by hand") {
    const char* folder = std::getenv("PACELINE_TEST_DATA");
    if (folder == nullptr) {
      std::printf("skipped: no data\n");
      return;
    }
    Site site;
    const std::string tables = std::string(folder) + "/tabular/";
    // Blocks of 500 rows, each fourth one for the test, as the reference has them.
    CHECK(accuracy_on(site, "room", lines_of_file(tables + "room-occupancy-estimation.csv.gz"),
                      [](size_t row) { return row / 500 % 4 == 3; }) >= 0.97);
    CHECK(accuracy_on(site, "satellite", lines_of_file(tables + "satellite.csv.gz"),
                      [](size_t row) { return row >= 4435; }) >= 0.81);
    std::vector<std::string> rows =
        lines_of_file(tables + "occupancy-detection-datatraining.txt.gz");
    const size_t training = rows.size() - 1;
    const std::vector<std::string> test =
        lines_of_file(tables + "occupancy-detection-datatest.txt.gz");
    rows.insert(rows.end(), test.begin() + 1, test.end());
    CHECK(accuracy_on(site, "occupancy", rows, [&](size_t row) { return row >= training; }) >=
          0.93);
  }
}
