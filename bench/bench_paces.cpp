// The cost of an event in simulate/pace_world.h, for every pace, in a fleet of 100 and of 10,000.
//
//   bench_paces [--workers N] [--seconds S] [--json]
//
// An event is a piece of work that ends: its worker pushes, the pace decides, whoever may go on
// begins. Iterations take 1 to 4 s, each a tenth more or less, one in fifty five times as long.
// --workers is the large fleet, --seconds the length of one repeat.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/pace_world.h"

namespace paceline {
namespace {

constexpr int kRepeats = 9;
constexpr size_t kSmallFleet = 100;

struct Options {
  size_t workers = 10'000;
  double seconds = 0.05;
  bool json = false;
};

struct Rate {
  std::string pace;
  size_t workers = 0;
  double median = 0, lowest = 0, highest = 0;  // events a second
};

// CPU time of the thread: the same as wall time on an idle machine, and steadier on a busy one.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::unique_ptr<PaceWorld> fleet_of(const char* pace, size_t workers) {
  PaceWorldOptions options;
  options.pace = pace;
  options.jitter = 0.1;
  options.slow_share = 0.02;
  options.slow_factor = 5;
  Random random(1, workers);
  for (size_t i = 0; i < workers; ++i)
    options.iteration_us.push_back(1'000'000 + static_cast<TimeUs>(random.below(3'000'000)));
  return PaceWorld::make(std::move(options)).value();
}

Rate measure(const char* pace, size_t workers, double seconds) {
  const std::unique_ptr<PaceWorld> fleet = fleet_of(pace, workers);
  // A thousand events or so at a time, so that looking at the clock costs nothing.
  const TimeUs slice = std::max<TimeUs>(1'000, 2'000'000'000 / static_cast<TimeUs>(workers));
  // Everybody's first iterations are in step.
  fleet->run(30'000'000);
  std::vector<double> rates;
  // The first repeat warms caches and clock and isn't counted.
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    const uint64_t before = fleet->figures().events;
    const double start = now_s();
    double elapsed = 0;
    for (; elapsed < seconds; elapsed = now_s() - start) fleet->run(fleet->now() + slice);
    const auto events = static_cast<double>(fleet->figures().events - before);
    if (repeat > 0) rates.push_back(events / elapsed);
  }
  std::sort(rates.begin(), rates.end());
  return {pace, workers, rates[rates.size() / 2], rates.front(), rates.back()};
}

std::string cpu_name() {
  std::string name = "unknown CPU";
  if (FILE* file = std::fopen("/proc/cpuinfo", "r")) {
    char line[256], found[200];
    while (std::fgets(line, sizeof(line), file))
      if (std::sscanf(line, "model name : %199[^\n]", found) == 1) name = found;
    std::fclose(file);
  }
  return name;
}

void print_text(const std::vector<Rate>& rates) {
  std::printf("%s, %s, one thread, median of %d\n", cpu_name().c_str(), __VERSION__, kRepeats);
  std::printf("%-12s %8s %12s %25s %15s\n", "pace", "workers", "events/s", "lowest to highest",
              "cost, of small");
  for (size_t i = 0; i < rates.size(); ++i)
    std::printf("%-12s %8zu %12.0f %12.0f %12.0f %15.2f\n", rates[i].pace.c_str(), rates[i].workers,
                rates[i].median, rates[i].lowest, rates[i].highest,
                rates[i & ~size_t{1}].median / rates[i].median);
}

void print_json(const std::vector<Rate>& rates) {
  std::printf("{\"cpu\": \"%s\", \"compiler\": \"%s\", \"repeats\": %d, \"rates\": [",
              cpu_name().c_str(), __VERSION__, kRepeats);
  for (size_t i = 0; i < rates.size(); ++i)
    std::printf(
        "%s\n  {\"pace\": \"%s\", \"workers\": %zu, \"events_per_s\": %.0f, \"lowest\": %.0f, "
        "\"highest\": %.0f, \"cost_of_small\": %.3f}",
        i > 0 ? "," : "", rates[i].pace.c_str(), rates[i].workers, rates[i].median, rates[i].lowest,
        rates[i].highest, rates[i & ~size_t{1}].median / rates[i].median);
  std::printf("\n]}\n");
}

bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--json") {
      options->json = true;
    } else if (argument == "--seconds" && std::atof(value) > 0.0) {
      options->seconds = std::atof(argv[++i]);
    } else if (argument == "--workers" && std::atoi(value) >= 1 &&
               std::atoi(value) <= static_cast<int>(DueQueue::kWorkersMax)) {
      options->workers = static_cast<size_t>(std::atoi(argv[++i]));
    } else {
      std::fprintf(stderr, "usage: bench_paces [--workers N] [--seconds S] [--json]\n");
      return false;
    }
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) return 2;
  std::vector<Rate> rates;
  for (const PaceInfo& info : paces())
    for (const size_t workers : {kSmallFleet, options.workers})
      rates.push_back(measure(info.name, workers, options.seconds));
  options.json ? print_json(rates) : print_text(rates);
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run(argc, argv); }
