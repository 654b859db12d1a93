// Training speed: steps (gradient and SGD) a second on one thread, for every backend of this
// machine.
//
//   bench_train [--seconds S] [--json] [--peer torch]
//
// --seconds is the length of one repeat. --peer runs bench/peer_torch.py in the same run, on the
// same nets and batch, where python3 has the module; from the root of the tree.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/trainer.h"

namespace paceline {
namespace {

constexpr size_t kBatch = 32;
constexpr int kRepeats = 9;

struct Net {
  const char* name;
  const char* what;
  const char* toml;
};

constexpr Net kNets[] = {{"mlp", "784-128-10", R"(
[model]
input = [784]
classes = 10
[[layer]]
type = "dense"
units = 128
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 10
)"},
                         {"cnn", "8c5-p2-16c5-p2-64-10", R"(
[model]
input = [28, 28]
classes = 10
[[layer]]
type = "conv2d"
filters = 8
kernel = 5
[[layer]]
type = "relu"
[[layer]]
type = "maxpool2d"
kernel = 2
[[layer]]
type = "conv2d"
filters = 16
kernel = 5
[[layer]]
type = "relu"
[[layer]]
type = "maxpool2d"
kernel = 2
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = 64
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 10
)"}};

struct Options {
  double seconds = 0.3;
  bool json = false;
  bool torch = false;
};

struct Rate {
  std::string net, by;
  double median = 0.0, lowest = 0.0, highest = 0.0;  // steps a second
  size_t planned_bytes = 0;                          // 0: not known
};

// CPU time of the process: the same as wall time on an idle machine, and steadier on a busy one.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Images that differ from step to step, as in training.
struct Data {
  static constexpr size_t kBatches = 64;
  explicit Data(const ModelSpec& spec) : row_features(static_cast<size_t>(spec.input_features())) {
    Random random(1, 0);
    features.resize(kBatches * kBatch * row_features);
    for (float& value : features) value = static_cast<float>(random.unit());
    for (size_t row = 0; row < kBatches * kBatch; ++row)
      labels.push_back(static_cast<int32_t>(random.below(spec.class_count)));
  }
  std::span<const float> batch_features(size_t step) const {
    return std::span(features).subspan(step % kBatches * kBatch * row_features,
                                       kBatch * row_features);
  }
  std::span<const int32_t> batch_labels(size_t step) const {
    return std::span(labels).subspan(step % kBatches * kBatch, kBatch);
  }
  size_t row_features;
  std::vector<float> features;
  std::vector<int32_t> labels;
};

Result<Rate> measure(const Net& net, const std::string& backend, double seconds) {
  PACELINE_ASSIGN(const ModelSpec spec, parse_model(net.toml));
  PACELINE_ASSIGN(const std::unique_ptr<Trainer> trainer, make_trainer(spec, kBatch, backend));
  const Data data(spec);
  std::vector<float> parameters(static_cast<size_t>(spec.layout.element_count())),
      gradient(parameters.size());
  init_parameters(spec, 1, parameters);
  Optimizer sgd({}, parameters.size());
  std::vector<double> rates;
  size_t step = 0;
  // The first repeat warms caches and clock and isn't counted.
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    size_t steps = 0;
    const double start = now_s();
    double elapsed = 0.0;
    while (elapsed < seconds) {
      for (int i = 0; i < 8; ++i, ++steps, ++step) {
        PACELINE_ASSIGN([[maybe_unused]] const float loss,
                        trainer->gradient(parameters, data.batch_features(step),
                                          data.batch_labels(step), gradient));
        sgd.step(gradient, 0.01f, parameters);
      }
      elapsed = now_s() - start;
    }
    if (repeat > 0) rates.push_back(static_cast<double>(steps) / elapsed);
  }
  std::sort(rates.begin(), rates.end());
  return Rate{net.name,      backend,      rates[rates.size() / 2],
              rates.front(), rates.back(), trainer->planned_bytes()};
}

// Lines of the script: "NET MEDIAN LOWEST HIGHEST". Empty, with the reason printed, if it can't
// run.
std::vector<Rate> measure_torch(double seconds) {
  const std::string command =
      "/usr/bin/python3 bench/peer_torch.py --seconds " + std::to_string(seconds) + " 2>&1";
  std::vector<Rate> rates;
  FILE* output = popen(command.c_str(), "r");
  char line[512], net[16], version[64] = "torch";
  while (output && std::fgets(line, sizeof(line), output)) {
    Rate rate;
    if (std::sscanf(line, "version %63s", version) == 1) continue;
    if (std::sscanf(line, "%15s %lf %lf %lf", net, &rate.median, &rate.lowest, &rate.highest) ==
        4) {
      rate.net = net;
      rate.by = version;
      rates.push_back(rate);
    } else {
      std::fprintf(stderr, "peer torch: %s", line);
    }
  }
  const bool ended_well = output && pclose(output) == 0;
  if (!ended_well || rates.empty()) {
    std::fprintf(stderr, "peer torch: not measured (is python3-torch installed?)\n");
    rates.clear();
  }
  return rates;
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
  std::printf("%s, %s, one thread, batch %zu, median of %d\n", cpu_name().c_str(), __VERSION__,
              kBatch, kRepeats);
  std::printf("%-4s %-16s %10s %10s %19s %12s\n", "net", "backend", "steps/s", "samples/s",
              "lowest to highest", "arena bytes");
  for (const Rate& rate : rates)
    std::printf("%-4s %-16s %10.0f %10.0f %9.0f%10.0f %12zu\n", rate.net.c_str(), rate.by.c_str(),
                rate.median, rate.median * kBatch, rate.lowest, rate.highest, rate.planned_bytes);
}

void print_json(const std::vector<Rate>& rates) {
  std::printf(
      "{\"cpu\": \"%s\", \"compiler\": \"%s\", \"batch\": %zu, \"repeats\": %d, \"rates\": [",
      cpu_name().c_str(), __VERSION__, kBatch, kRepeats);
  for (size_t i = 0; i < rates.size(); ++i)
    std::printf(
        "%s\n  {\"net\": \"%s\", \"by\": \"%s\", \"steps_per_s\": %.1f, \"lowest\": %.1f, "
        "\"highest\": %.1f, \"planned_bytes\": %zu}",
        i > 0 ? "," : "", rates[i].net.c_str(), rates[i].by.c_str(), rates[i].median,
        rates[i].lowest, rates[i].highest, rates[i].planned_bytes);
  std::printf("\n]}\n");
}

// The best backend against the peer.
void print_ratios(const std::vector<Rate>& own, const std::vector<Rate>& peers) {
  for (const Rate& peer : peers)
    for (const Rate& rate : own)
      if (rate.net == peer.net) {
        std::printf("%s: %s is %.2f x %s\n", rate.net.c_str(), rate.by.c_str(),
                    rate.median / peer.median, peer.by.c_str());
        break;
      }
}

bool read_options(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (argument == "--json") {
      options->json = true;
    } else if (argument == "--seconds" && std::atof(value) > 0.0) {
      options->seconds = std::atof(argv[++i]);
    } else if (argument == "--peer" && std::strcmp(value, "torch") == 0) {
      options->torch = true;
      ++i;
    } else {
      std::fprintf(stderr, "usage: bench_train [--seconds S] [--json] [--peer torch]\n");
      return false;
    }
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) return 2;
  std::vector<Rate> rates;
  for (const Net& net : kNets)
    for (const std::string& backend : backends()) {
      const auto rate = measure(net, backend, options.seconds);
      if (!rate) {
        std::fprintf(stderr, "%s on %s: %s\n", net.name, backend.c_str(),
                     rate.error().to_string().c_str());
        return 1;
      }
      rates.push_back(*rate);
    }
  const std::vector<Rate> peers =
      options.torch ? measure_torch(options.seconds) : std::vector<Rate>{};
  std::vector<Rate> all = rates;
  all.insert(all.end(), peers.begin(), peers.end());
  if (options.json) {
    print_json(all);
  } else {
    print_text(all);
    print_ratios(rates, peers);
  }
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run(argc, argv); }
