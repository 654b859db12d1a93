// What the simulator costs beside the training that it simulates: a fleet of four boards under the
// virtual clock against the same number of local steps alone.
//
//   bench_simulate [--seconds S] [--json]
//
// A step is a batch of 32 rows through 784-32-10, forward, backward and SGD with momentum, its rows
// gathered from a board's data. Alone, the same boards step in turn, as they do in the fleet, which
// adds messages, codecs, sums, publications, checksums, invariants and the clock. Nothing is held
// out, so nobody evaluates. --seconds is the virtual length of a run.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/worker/local_trainer.h"
#include "simulate/invariants.h"

namespace paceline {
namespace {

constexpr int kRepeats = 5;
constexpr uint32_t kBoards = 4;
constexpr size_t kRowsPerBoard = 2000;
constexpr TimeUs kStepsUs[kBoards] = {5000, 5000, 10'000, 20'000};
constexpr const char* kRun =
    "[model]\ninput = [28, 28]\nclasses = 10\n[[layer]]\ntype = \"flatten\"\n[[layer]]\n"
    "type = \"dense\"\nunits = 32\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"dense\"\n"
    "units = 10\n[training]\nbatch = 32\nrate = 0.02\n[data]\nscale = 0.00392156862745098\n";

struct Setting {
  const char* pace;
  const char* freq;
  CodecId codec;
};
constexpr Setting kSettings[] = {
    {"compat", "fixed:64", CodecId::kS1r},   {"compat", "fixed:16", CodecId::kS1r},
    {"compat", "fixed:16", CodecId::kRaw32}, {"compat", "fixed:4", CodecId::kS1r},
    {"asp", "fixed:16", CodecId::kS1r},      {"bsp", "fixed:1", CodecId::kRaw32}};

struct Cost {
  uint64_t steps = 0;
  uint64_t exchanges = 0;
  double fleet_us = 0;  // of a step, median
  double alone_us = 0;
  double ratio = 0;  // median of the repeats' ratios
};

// CPU time of the thread: the same as wall time on an idle machine, and steadier on a busy one.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Random images; what they show costs nothing.
std::shared_ptr<LocalData> images(uint32_t board) {
  Random random(1, board);
  Bytes values(kRowsPerBoard * 784);
  for (std::byte& value : values) value = static_cast<std::byte>(random.below(256));
  std::vector<int32_t> labels(kRowsPerBoard);
  for (int32_t& label : labels) label = static_cast<int32_t>(random.below(10));
  auto data = std::make_shared<LocalData>();
  data->dataset = Dataset(ElementType::kUint8, std::move(values), {28, 28}, std::move(labels), 10);
  data->split.training.resize(kRowsPerBoard);
  std::iota(data->split.training.begin(), data->split.training.end(), 0u);
  return data;
}

FleetOptions fleet_options(const Setting& setting) {
  FleetOptions options;
  options.server.run_text = kRun;
  options.server.run = parse_run(kRun).value();
  options.server.pace = setting.pace;
  options.server.freq = setting.freq;
  options.server.codec_up = options.server.codec_down = setting.codec;
  options.faults.delay_us = 200;
  for (uint32_t i = 0; i < kBoards; ++i) {
    FleetWorker worker;
    worker.name = format_text("board%u", i + 1);
    worker.step_us = kStepsUs[i];
    const std::shared_ptr<LocalData> data = images(i);
    worker.training_rows = data->split.training.size();
    worker.held_out_rows = data->split.held_out.size();
    worker.factory = make_local_run_factory(data, worker.name, "auto");
    options.server.fleet.push_back(worker.name);
    options.workers.push_back(std::move(worker));
  }
  return options;
}

struct Board {
  LocalRun run;
  Optimizer optimizer;
  std::vector<float> parameters, gradient;
};

// Seconds that so many steps of each board take without anything around them.
double steps_alone(const FleetOptions& options, std::vector<uint64_t> steps) {
  const ModelSpec& model = options.server.run.model;
  const auto count = static_cast<size_t>(model.layout.element_count());
  std::vector<Board> boards;
  for (const FleetWorker& worker : options.workers) {
    boards.push_back({worker.factory(kRun).value(), Optimizer({}, count), std::vector<float>(count),
                      std::vector<float>(count)});
    init_parameters(model, 1, boards.back().parameters);
  }
  const double start = now_s();
  for (bool any = true; any;) {
    any = false;
    for (uint32_t i = 0; i < kBoards; ++i) {
      if (steps[i] == 0) continue;
      --steps[i];
      any = true;
      Board& board = boards[i];
      if (!board.run.trainer->gradient(board.parameters, 32, board.gradient)) std::abort();
      board.optimizer.step(board.gradient, 0.02f, board.parameters);
    }
  }
  return now_s() - start;
}

Cost measure(const Setting& setting, double seconds) {
  const FleetOptions options = fleet_options(setting);
  std::vector<double> fleet_us, alone_us, ratios;
  Cost cost;
  // The first repeat warms caches and clock and isn't counted.
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    const std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
    FleetInvariants invariants(*fleet);
    const double start = now_s();
    fleet->run(static_cast<TimeUs>(seconds * 1e6), [&] { return !invariants.hold(); });
    const double took = now_s() - start;
    const WorkerTotals totals = fleet->totals();
    cost.steps = totals.steps;
    cost.exchanges = totals.exchanges;
    std::vector<uint64_t> steps;
    for (uint32_t i = 0; i < kBoards; ++i) steps.push_back(fleet->totals(i).steps);
    const double alone = steps_alone(options, std::move(steps));
    if (repeat == 0) continue;
    fleet_us.push_back(took * 1e6 / static_cast<double>(cost.steps));
    alone_us.push_back(alone * 1e6 / static_cast<double>(cost.steps));
    ratios.push_back(took / alone);
  }
  for (std::vector<double>* values : {&fleet_us, &alone_us, &ratios}) std::ranges::sort(*values);
  cost.fleet_us = fleet_us[kRepeats / 2];
  cost.alone_us = alone_us[kRepeats / 2];
  cost.ratio = ratios[kRepeats / 2];
  return cost;
}

int run(int argc, char** argv) {
  double seconds = 10;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--seconds" && i + 1 < argc && std::atof(argv[i + 1]) >= 0.5) {
      seconds = std::atof(argv[++i]);
    } else {
      std::fprintf(stderr, "usage: bench_simulate [--seconds S] [--json]\n");
      return 2;
    }
  }
  set_log_level(LogLevel::kError);
  if (!json)
    std::printf(
        "784-32-10, batch 32, %u boards, %g virtual s, %s, median of %d\n%-8s %-9s %-6s "
        "%8s %10s %10s %10s %8s\n",
        kBoards, seconds, __VERSION__, kRepeats, "pace", "freq", "codec", "steps", "exchanges",
        "us a step", "alone", "ratio");
  for (const Setting& setting : kSettings) {
    const Cost cost = measure(setting, seconds);
    const char* const form =
        json ? "{\"pace\": \"%s\", \"freq\": \"%s\", \"codec\": \"%s\", \"steps\": %llu, "
               "\"exchanges\": %llu, \"fleet_us\": %.2f, \"alone_us\": %.2f, \"ratio\": %.3f}\n"
             : "%-8s %-9s %-6s %8llu %10llu %10.1f %10.1f %8.3f\n";
    std::printf(form, setting.pace, setting.freq, codec_info(setting.codec).name,
                static_cast<unsigned long long>(cost.steps),
                static_cast<unsigned long long>(cost.exchanges), cost.fleet_us, cost.alone_us,
                cost.ratio);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run(argc, argv); }
