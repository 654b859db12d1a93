// Codec speed on one thread, for every codec and every kernel set of this CPU, against memcpy of
// the same float32 bytes in the same process.
//
//   bench_codecs [--elements N] [--seconds S] [--json]
//
// blocks: the loop over blocks alone, encode with error feedback. update: encode_update() as a
// worker calls it, with the check of every value, header and checksums. add: un-send and delta.
// sum: eight workers' payloads, as float32 bytes decoded. --seconds is the length of one repeat.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/quant/block_coder.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"

namespace paceline {
namespace {

constexpr int kRepeats = 9;
constexpr size_t kWorkers = 8;
constexpr RotationKey kRotation{1, 2};

struct Options {
  std::vector<uint32_t> elements = {100'352, 1'048'576, 25'165'824};
  double seconds = 0.05;
  bool json = false;
};

struct Rate {
  std::string what, codec, set;
  size_t elements = 0;
  double median_us = 0.0, lowest_us = 0.0, highest_us = 0.0;
  double gb_per_s = 0.0;  // float32 bytes of the update (sum: of all workers' updates)
  double of_memcpy = 0.0;
};

// CPU time of the thread: the same as wall time on an idle machine, and steadier on a busy one.
double now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Times `body`; `bytes` is what one call handles.
template <class Body>
Rate measure(const char* what, size_t elements, size_t bytes, double seconds, Body body) {
  std::vector<double> times;
  // The first repeat warms caches and clock and isn't counted.
  for (int repeat = 0; repeat <= kRepeats; ++repeat) {
    const double start = now_s();
    double elapsed = 0.0;
    size_t calls = 0;
    for (; elapsed < seconds; elapsed = now_s() - start, ++calls) body();
    if (repeat > 0) times.push_back(elapsed / static_cast<double>(calls));
  }
  std::sort(times.begin(), times.end());
  Rate rate;
  rate.what = what;
  rate.elements = elements;
  rate.median_us = times[times.size() / 2] * 1e6;
  rate.lowest_us = times.front() * 1e6;
  rate.highest_us = times.back() * 1e6;
  rate.gb_per_s = static_cast<double>(bytes) / times[times.size() / 2] * 1e-9;
  return rate;
}

std::vector<float> sample(size_t count, uint64_t stream) {
  Random random(1, stream);
  std::vector<float> values(count);
  for (float& value : values) value = random.symmetric() * 0.01f;
  return values;
}

// All rates of one codec with the kernel set in use.
std::vector<Rate> measure_codec(const ParameterLayout& layout, CodecId codec, double seconds) {
  const size_t count = layout.element_count();
  const size_t bytes = count * sizeof(float);
  const BlockCoder& coder = block_coder(codec);
  const CodedBlocks blocks{0, layout.block_count(), layout.block_count() * kBlockElements,
                           kRotation};
  const std::vector<float> update = sample(count, 0);
  std::vector<float> residual = sample(count, 1);
  std::vector<unsigned char> scales(size_t{layout.block_count()} * 2);
  std::vector<unsigned char> codes(size_t{layout.block_count()} * coder.code_bytes);
  std::vector<EncodedUpdate> updates(kWorkers);
  std::vector<Rate> rates;

  rates.push_back(measure("blocks", count, bytes, seconds, [&] {
    coder.encode(blocks, update.data(), residual.data(), {scales.data(), codes.data()});
  }));
  rates.push_back(measure("update", count, bytes, seconds, [&] {
    if (!encode_update(layout, codec, kRotation, update, residual, &updates[0]).ok()) std::abort();
  }));
  std::vector<float> into(count);
  rates.push_back(measure("add", count, bytes, seconds, [&] {
    coder.add(blocks, {scales.data(), codes.data()}, into.data());
  }));

  std::vector<std::vector<WeightedPayload>> payloads(layout.chunk_count());
  for (size_t w = 0; w < kWorkers; ++w) {
    std::fill(residual.begin(), residual.end(), 0.0f);
    if (!encode_update(layout, codec, kRotation, sample(count, 2 + w), residual, &updates[w]).ok())
      std::abort();
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const auto view = verify_payload(layout, chunk, updates[w].chunks[chunk]);
      if (!view) std::abort();
      payloads[chunk].push_back({*view, round_weight(1.0 / static_cast<double>(w + 1))});
    }
  }
  rates.push_back(measure("sum", count, kWorkers * bytes, seconds, [&] {
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
      sum_payloads(layout, chunk, payloads[chunk], kRotation.seed, into);
  }));
  return rates;
}

std::vector<Rate> measure_size(uint32_t elements, double seconds) {
  std::vector<Rate> rates;
  const auto layout = ParameterLayout::make({{.name = "weight", .shape = {elements}}});
  if (!layout) {
    std::fprintf(stderr, "%s\n", layout.error().to_string().c_str());
    return rates;
  }
  const size_t bytes = layout->element_count() * sizeof(float);
  const std::vector<float> from = sample(layout->element_count(), 0);
  std::vector<float> to(from.size());
  Rate copy = measure("memcpy", from.size(), bytes, seconds,
                      [&] { std::memcpy(to.data(), from.data(), bytes); });
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    use_kernels(*set);
    for (const CodecInfo& info : codecs())
      for (Rate& rate : measure_codec(*layout, info.id, seconds)) {
        rate.codec = info.name;
        rate.set = set->name;
        rate.of_memcpy = rate.gb_per_s / copy.gb_per_s;
        rates.push_back(rate);
      }
  }
  copy.of_memcpy = 1.0;
  rates.push_back(copy);
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
  std::printf("%s, %s, one thread, median of %d\n", cpu_name().c_str(), __VERSION__, kRepeats);
  std::printf("%9s %-7s %-6s %-7s %11s %23s %8s %9s\n", "elements", "what", "codec", "kernels",
              "us", "lowest to highest", "GB/s", "of memcpy");
  for (const Rate& rate : rates)
    std::printf("%9zu %-7s %-6s %-7s %11.1f %11.1f %11.1f %8.2f %9.2f\n", rate.elements,
                rate.what.c_str(), rate.codec.c_str(), rate.set.c_str(), rate.median_us,
                rate.lowest_us, rate.highest_us, rate.gb_per_s, rate.of_memcpy);
}

void print_json(const std::vector<Rate>& rates) {
  std::printf("{\"cpu\": \"%s\", \"compiler\": \"%s\", \"repeats\": %d, \"rates\": [",
              cpu_name().c_str(), __VERSION__, kRepeats);
  for (size_t i = 0; i < rates.size(); ++i)
    std::printf(
        "%s\n  {\"elements\": %zu, \"what\": \"%s\", \"codec\": \"%s\", \"kernels\": \"%s\", "
        "\"us\": %.2f, \"lowest_us\": %.2f, \"highest_us\": %.2f, \"gb_per_s\": %.3f, "
        "\"of_memcpy\": %.3f}",
        i > 0 ? "," : "", rates[i].elements, rates[i].what.c_str(), rates[i].codec.c_str(),
        rates[i].set.c_str(), rates[i].median_us, rates[i].lowest_us, rates[i].highest_us,
        rates[i].gb_per_s, rates[i].of_memcpy);
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
    } else if (argument == "--elements" && std::atoi(value) >= 4096) {
      options->elements = {static_cast<uint32_t>(std::atoi(argv[++i]))};
    } else {
      std::fprintf(stderr,
                   "usage: bench_codecs [--elements N] [--seconds S] [--json]\n"
                   "N is at least 4096\n");
      return false;
    }
  }
  return true;
}

int run(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, &options)) return 2;
  std::vector<Rate> all;
  for (uint32_t elements : options.elements) {
    const std::vector<Rate> rates = measure_size(elements, options.seconds);
    if (rates.empty()) return 1;
    all.insert(all.end(), rates.begin(), rates.end());
  }
  options.json ? print_json(all) : print_text(all);
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::run(argc, argv); }
