#include <nlohmann/json.hpp>

#include "server/codec_bench.h"

namespace paceline {

namespace {

// Least speed against memcpy of the same float32 bytes, on one core, for a model that stays in the
// caches (1 Mi elements) and for one that does not (24 Mi). 0: no target.
struct Target {
  const char* codec;
  const char* op;
  double avx2_cached;
  double avx2_memory;
  double avx512_cached;
  double avx512_memory;
};
constexpr Target kTargets[] = {
    {"q8", "encode", 1.00, 1.60, 1.00, 1.70},     {"q8", "encode_ef", 0.50, 1.00, 0.55, 1.00},
    {"s1", "encode_ef", 0.45, 1.00, 0.60, 1.05},  {"q8", "decode_add", 1.30, 1.55, 1.40, 1.65},
    {"s1", "decode_add", 1.50, 1.90, 1.60, 1.90}, {"q8", "sum8", 1.60, 4.00, 1.60, 4.00},
    {"s1", "sum8", 1.05, 3.50, 1.75, 5.00},       {"q8", "server_round", 0, 0, 0.75, 2.10},
};
constexpr uint32_t kCachedCount = 1'048'576;
constexpr uint32_t kMemoryCount = 25'165'824;

// Other programs and the machine's own mood take their share. memcpy itself varies twofold where
// memory is the limit, so there the share of the read bound decides, which does not.
constexpr double kTolerance = 0.7;
constexpr double kReadBoundMin = 0.85;

double target_of(const Target& target, const CodecRate& rate) {
  const bool cached = rate.count == kCachedCount;
  if (!cached && rate.count != kMemoryCount) return 0;
  if (rate.kernel_set == "avx2") return cached ? target.avx2_cached : target.avx2_memory;
  if (rate.kernel_set == "avx512") return cached ? target.avx512_cached : target.avx512_memory;
  return 0;
}

std::string fault_of(const CodecRate& rate, double target) {
  const std::string what = format_text("%s %s of %u elements on %s", rate.codec.c_str(),
                                       rate.op.c_str(), rate.count, rate.kernel_set.c_str());
  if (rate.memcpy_ratio >= kTolerance * target) return {};
  if (rate.count != kMemoryCount)
    return format_text("%s: %.2f of memcpy, %.1f of the target %.2f is %.2f", what.c_str(),
                       rate.memcpy_ratio, kTolerance, target, kTolerance * target);
  if (rate.read_bound_ratio >= kReadBoundMin) return {};
  return format_text("%s: %.2f of memcpy (target %.2f), and %.2f of the read bound, not %.2f",
                     what.c_str(), rate.memcpy_ratio, target, rate.read_bound_ratio, kReadBoundMin);
}

}  // namespace

std::vector<std::string> codec_bench_faults(const CodecBench& bench) {
  std::vector<std::string> faults;
  for (const CodecRate& rate : bench.rates)
    for (const Target& target : kTargets) {
      if (rate.codec != target.codec || rate.op != target.op) continue;
      const double least = target_of(target, rate);
      if (std::string fault = fault_of(rate, least); least > 0 && !fault.empty())
        faults.push_back(std::move(fault));
    }
  return faults;
}

std::string codec_bench_text(const CodecBench& bench) {
  std::string text = format_text("%s, %s, one thread, CPU time, median of %u\n", bench.cpu.c_str(),
                                 bench.compiler.c_str(), bench.repeats);
  for (const CodecYardstick& yardstick : bench.yardsticks) {
    text += format_text("\n%u elements, %s: memcpy %.1f GB/s, reading %.1f GB/s\n", yardstick.count,
                        yardstick.kernel_set.c_str(), yardstick.memcpy_gb_per_s,
                        yardstick.read_gb_per_s);
    text += format_text("%-6s %-12s %11s %23s %8s %9s %13s\n", "codec", "op", "us",
                        "fastest to slowest", "GB/s", "of memcpy", "of read bound");
    for (const CodecRate& rate : bench.rates)
      if (rate.count == yardstick.count && rate.kernel_set == yardstick.kernel_set)
        text += format_text("%-6s %-12s %11.2f %11.2f %11.2f %8.2f %9.2f %13.2f\n",
                            rate.codec.c_str(), rate.op.c_str(), rate.us, rate.us_min, rate.us_max,
                            rate.gb_per_s, rate.memcpy_ratio, rate.read_bound_ratio);
  }
  return text;
}

std::string codec_bench_json(const CodecBench& bench) {
  using Json = nlohmann::ordered_json;
  Json yardsticks = Json::array();
  for (const CodecYardstick& yardstick : bench.yardsticks)
    yardsticks.push_back({{"kernel_set", yardstick.kernel_set},
                          {"count", yardstick.count},
                          {"memcpy_gb_per_s", yardstick.memcpy_gb_per_s},
                          {"read_gb_per_s", yardstick.read_gb_per_s}});
  Json rows = Json::array();
  for (const CodecRate& rate : bench.rates)
    rows.push_back({{"kernel_set", rate.kernel_set},
                    {"codec", rate.codec},
                    {"op", rate.op},
                    {"count", rate.count},
                    {"us", rate.us},
                    {"us_min", rate.us_min},
                    {"us_max", rate.us_max},
                    {"gb_per_s", rate.gb_per_s},
                    {"memcpy_ratio", rate.memcpy_ratio},
                    {"read_bound_ratio", rate.read_bound_ratio}});
  const Json json = {{"cpu", bench.cpu},
                     {"compiler", bench.compiler},
                     {"repeats", bench.repeats},
                     {"yardsticks", yardsticks},
                     {"rows", rows}};
  return json.dump(1) + "\n";
}

}  // namespace paceline
