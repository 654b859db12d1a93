#include "server/codec_gate.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/quant/dispatch.h"

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
    {"q8", "encode", 1.00, 1.60, 1.00, 1.70},
    {"q8", "encode_ef", 0.50, 1.00, 0.55, 1.00},
    {"q8", "decode_add", 1.30, 1.55, 1.40, 1.65},
    {"q8", "sum8", 1.60, 4.00, 1.60, 4.00},
    {"q8", "server_round", 0.75, 2.10, 0.75, 2.10},
    {"s1", "encode_ef", 0.45, 1.00, 0.60, 1.05},
    {"s1", "decode_add", 1.50, 1.90, 1.60, 1.90},
    {"s1", "sum8", 1.05, 3.50, 1.75, 5.00},
    {"tk1", "encode", 0.35, 0, 0.35, 0},
};
constexpr uint32_t kCachedCount = 1'048'576;
constexpr uint32_t kMemoryCount = 25'165'824;
constexpr const char* kKernelSets[] = {"avx512", "avx2"};

// memcpy itself varies twofold where memory is the limit, so there the share of the read bound
// decides as well, which does not.
constexpr double kTolerance = 0.7;
constexpr double kReadBoundMin = 0.85;
constexpr int kTriesMax = 5;

double target_of(const Target& target, const std::string& kernel_set, uint32_t count) {
  const bool cached = count == kCachedCount;
  if (!cached && count != kMemoryCount) return 0;
  if (kernel_set == "avx2") return cached ? target.avx2_cached : target.avx2_memory;
  if (kernel_set == "avx512") return cached ? target.avx512_cached : target.avx512_memory;
  return 0;
}

double target_of(const CodecRate& rate) {
  for (const Target& target : kTargets)
    if (rate.codec == target.codec && rate.op == target.op)
      return target_of(target, rate.kernel_set, rate.count);
  return 0;
}

bool same_row(const CodecRate& a, const CodecRate& b) {
  return a.kernel_set == b.kernel_set && a.codec == b.codec && a.op == b.op && a.count == b.count;
}

// Whether `rate` says more for the codec than `other`, a try of the same row.
bool is_better(const CodecRate& rate, const CodecRate& other) {
  const bool good = codec_fault(rate).empty();
  if (good != codec_fault(other).empty()) return good;
  return rate.memcpy_ratio > other.memcpy_ratio;
}

void keep_best(const CodecBench& tried, CodecBench* best) {
  best->cpu = tried.cpu;
  best->compiler = tried.compiler;
  best->repeats = tried.repeats;
  for (const CodecYardstick& yardstick : tried.yardsticks) {
    const auto same = std::find_if(
        best->yardsticks.begin(), best->yardsticks.end(), [&](const CodecYardstick& other) {
          return other.kernel_set == yardstick.kernel_set && other.count == yardstick.count;
        });
    if (same == best->yardsticks.end()) best->yardsticks.push_back(yardstick);
  }
  for (const CodecRate& rate : tried.rates) {
    const auto same = std::find_if(best->rates.begin(), best->rates.end(),
                                   [&](const CodecRate& other) { return same_row(rate, other); });
    if (same == best->rates.end())
      best->rates.push_back(rate);
    else if (is_better(rate, *same))
      *same = rate;
  }
}

// Rows that one measurement takes: one codec, kernel set and size.
std::vector<CodecBenchOptions> gate_groups() {
  std::vector<CodecBenchOptions> groups;
  for (const uint32_t count : {kCachedCount, kMemoryCount})
    for (const char* set : kKernelSets) {
      const Result<const KernelSet*> found = kernel_set_by_name(set);
      if (!found) continue;
      for (const Target& target : kTargets) {
        if (target_of(target, set, count) == 0) continue;
        const bool opens = groups.empty() || groups.back().codecs.front() != target.codec ||
                           groups.back().kernel_sets.front() != set ||
                           groups.back().elements.front() != count;
        if (opens) groups.push_back({{count}, {target.codec}, {set}, {}, 3, 10});
        groups.back().ops.push_back(target.op);
      }
    }
  return groups;
}

// The operations of a group that are not there yet, or too slow.
std::vector<std::string> open_ops(const CodecBenchOptions& group, const CodecBench& bench) {
  std::vector<std::string> open;
  for (const std::string& op : group.ops) {
    CodecRate row;
    row.kernel_set = group.kernel_sets.front();
    row.codec = group.codecs.front();
    row.op = op;
    row.count = group.elements.front();
    const auto found = std::find_if(bench.rates.begin(), bench.rates.end(),
                                    [&](const CodecRate& rate) { return same_row(rate, row); });
    if (found == bench.rates.end() || !codec_fault(*found).empty()) open.push_back(op);
  }
  return open;
}

}  // namespace

std::string codec_fault(const CodecRate& rate) {
  const double target = target_of(rate);
  if (rate.memcpy_ratio >= kTolerance * target) return {};
  const std::string what = format_text("%s %s of %u elements on %s", rate.codec.c_str(),
                                       rate.op.c_str(), rate.count, rate.kernel_set.c_str());
  if (rate.count != kMemoryCount)
    return format_text("%s: %.2f of memcpy, %.1f of the target %.2f is %.2f", what.c_str(),
                       rate.memcpy_ratio, kTolerance, target, kTolerance * target);
  if (rate.read_bound_ratio >= kReadBoundMin) return {};
  return format_text("%s: %.2f of memcpy (target %.2f), and %.2f of the read bound, not %.2f",
                     what.c_str(), rate.memcpy_ratio, target, rate.read_bound_ratio, kReadBoundMin);
}

Result<CodecGate> run_codec_gate(const MeasureCodecs& measure) {
  CodecGate gate;
  const std::vector<CodecBenchOptions> groups = gate_groups();
  for (int tries = 0; tries < kTriesMax; ++tries)
    for (CodecBenchOptions group : groups) {
      group.ops = open_ops(group, gate.bench);
      if (group.ops.empty()) continue;
      PACELINE_ASSIGN(const CodecBench tried, measure(group));
      keep_best(tried, &gate.bench);
    }
  for (const CodecRate& rate : gate.bench.rates)
    if (std::string fault = codec_fault(rate); !fault.empty())
      gate.faults.push_back(std::move(fault));
  return gate;
}

}  // namespace paceline
