#include "server/codec_bench.h"

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "runtime/quant/block_coder.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"

namespace paceline {

namespace {

constexpr size_t kWorkers = 8;
constexpr RotationKey kRotation{1, 2};

double cpu_now_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one call in each repeat, ascending. A repeat before them warms caches and clock.
template <class Body>
std::vector<double> time_calls(const CodecBenchOptions& options, Body body) {
  std::vector<double> seconds;
  for (uint32_t repeat = 0; repeat <= options.repeats; ++repeat) {
    const double start = cpu_now_s();
    double elapsed = 0;
    double calls = 0;
    do {
      body();
      ++calls;
      elapsed = cpu_now_s() - start;
    } while (elapsed < options.repeat_ms * 1e-3);
    if (repeat > 0) seconds.push_back(elapsed / calls);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

double middle(std::span<const double> ascending) { return ascending[ascending.size() / 2]; }

std::vector<float> sample(size_t count, uint64_t stream) {
  Random random(1, stream);
  std::vector<float> values(count);
  for (float& value : values) value = random.symmetric() * 0.01f;
  return values;
}

// What one chunk's blocks become, without a payload's frame.
struct CodedChunk {
  CodedBlocks blocks;
  std::vector<unsigned char> scales;
  std::vector<unsigned char> codes;
  std::vector<unsigned char> ranges;
  CodedOutput output() { return {scales.data(), codes.data(), ranges.data()}; }
  CodedBytes bytes() const { return {scales.data(), codes.data(), ranges.data()}; }
  size_t first_element() const { return size_t{blocks.first_block} * kBlockElements; }
};

std::vector<CodedChunk> make_chunks(const ParameterLayout& layout, const BlockCoder& coder) {
  std::vector<CodedChunk> chunks(layout.chunk_count());
  for (uint32_t i = 0; i < layout.chunk_count(); ++i) {
    const ChunkRange range = layout.chunk(i);
    chunks[i].blocks = {range.first_block, range.block_count, range.block_count * kBlockElements,
                        kRotation};
    const size_t groups = BlockCoder::sparse_groups(range.block_count);
    chunks[i].scales.resize(coder.scale_bytes_of(range.block_count));
    chunks[i].codes.resize(size_t{range.block_count} * coder.code_bytes +
                           groups * coder.entry_bytes_max);
    chunks[i].ranges.resize((groups + 1) * sizeof(uint16_t));
  }
  return chunks;
}

// One codec, one kernel set, one size.
class Bench {
 public:
  Bench(const CodecBenchOptions& options, const ParameterLayout& layout,
        const CodecYardstick& yardstick, CodecId codec, std::vector<CodecRate>* rates)
      : options_(options),
        layout_(layout),
        yardstick_(yardstick),
        coder_(block_coder(codec)),
        rates_(*rates) {}

  void run() {
    measure_blocks();
    // A tensor below 4,096 elements rides as Q8 under most codecs.
    if (!layout_.runs().front().wide && !coder_.takes_narrow) return;
    if (wanted("update") || wanted("sum8") || wanted("server_round")) measure_payloads();
  }

 private:
  // `updates` are handled by one call, which has to fetch `fetched` bytes for each element.
  template <class Body>
  void measure(const char* op, size_t updates, double fetched, Body body) {
    if (!wanted(op)) return;
    const std::vector<double> seconds = time_calls(options_, body);
    const double count = static_cast<double>(layout_.element_count());
    const double bytes = static_cast<double>(updates * sizeof(float)) * count;
    CodecRate rate;
    rate.kernel_set = yardstick_.kernel_set;
    rate.codec = coder_.info.name;
    rate.op = op;
    rate.count = yardstick_.count;
    rate.us = middle(seconds) * 1e6;
    rate.us_min = seconds.front() * 1e6;
    rate.us_max = seconds.back() * 1e6;
    rate.gb_per_s = bytes / middle(seconds) * 1e-9;
    rate.memcpy_ratio = rate.gb_per_s / yardstick_.memcpy_gb_per_s;
    rate.read_bound_ratio = count * fetched / middle(seconds) * 1e-9 / yardstick_.read_gb_per_s;
    rates_.push_back(std::move(rate));
  }

  bool wanted(const char* op) const {
    return options_.ops.empty() ||
           std::find(options_.ops.begin(), options_.ops.end(), op) != options_.ops.end();
  }

  double code_bytes() const { return coder_.info.bits_per_element / 8; }

  void measure_blocks() {
    const std::vector<float> update = sample(layout_.element_count(), 0);
    std::vector<float> residual = sample(layout_.element_count(), 1);
    std::vector<CodedChunk> chunks = make_chunks(layout_, coder_);
    const auto encode = [&] {
      for (CodedChunk& chunk : chunks)
        coder_.encode(chunk.blocks, update.data() + chunk.first_element(), nullptr, chunk.output());
    };
    encode();  // what decode_add decodes, if nothing else is wanted
    measure("encode", 1, 4 + code_bytes(), encode);
    measure("encode_ef", 1, 8 + code_bytes(), [&] {
      for (CodedChunk& chunk : chunks)
        coder_.encode(chunk.blocks, update.data() + chunk.first_element(),
                      residual.data() + chunk.first_element(), chunk.output());
    });
    measure("decode_add", 1, 4 + code_bytes(), [&] {
      for (const CodedChunk& chunk : chunks)
        coder_.add(chunk.blocks, chunk.bytes(), residual.data() + chunk.first_element());
    });
  }

  // As workers and the server call it, with every check.
  void measure_payloads() {
    const std::vector<float> update = sample(layout_.element_count(), 0);
    std::vector<float> residual = sample(layout_.element_count(), 1);
    std::vector<EncodedUpdate> updates(kWorkers);
    const auto encode = [&](const std::vector<float>& values, EncodedUpdate* out) {
      const Status status =
          encode_update(layout_, coder_.info.id, kRotation, values, residual, out);
      PACELINE_CHECK(status.ok());
    };
    measure("update", 1, 8 + 8 + code_bytes(), [&] { encode(update, &updates[0]); });
    for (size_t w = 0; w < kWorkers; ++w) {
      std::fill(residual.begin(), residual.end(), 0.0f);
      encode(sample(layout_.element_count(), 2 + w), &updates[w]);
    }
    RoundClose close;
    close.seed = kRotation.seed;
    std::vector<WeightedPayload> payloads;
    for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
      for (size_t w = 0; w < kWorkers; ++w)
        payloads.push_back({verify_payload(layout_, chunk, updates[w].chunks[chunk]).value(),
                            round_weight(1.0 / static_cast<double>(w + 1))});
    for (size_t w = 0; w < kWorkers; ++w) close.divisor += payloads[w].weight;
    close.payloads = payloads;
    measure_sums(close, std::move(residual));
  }

  void measure_sums(const RoundClose& close, std::vector<float> sum) {
    const double codes = static_cast<double>(kWorkers) * code_bytes();
    measure("sum8", kWorkers, codes + 4, [&] {
      for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
        sum_payloads(layout_, chunk, close.payloads.subspan(chunk * kWorkers, kWorkers), close.seed,
                     sum);
    });
    std::vector<float> master = sample(layout_.element_count(), 20);
    std::vector<float> published = master;
    std::vector<float>& next = sum;
    EncodedUpdate out;
    measure("server_round", kWorkers, codes + 12 + code_bytes(), [&] {
      const Status status = close_and_publish(layout_, close, coder_.info.id, kRotation, master,
                                              published, next, &out);
      PACELINE_CHECK(status.ok());
      std::swap(published, next);
    });
  }

  const CodecBenchOptions& options_;
  const ParameterLayout& layout_;
  const CodecYardstick& yardstick_;
  const BlockCoder& coder_;
  std::vector<CodecRate>& rates_;
};

CodecYardstick measure_yardstick(const CodecBenchOptions& options, const ParameterLayout& layout,
                                 const KernelSet& set, uint32_t count) {
  const std::vector<float> from = sample(layout.element_count(), 0);
  std::vector<float> to(from.size());
  const double bytes = static_cast<double>(from.size() * sizeof(float));
  const std::vector<double> copies = time_calls(
      options, [&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); });
  const KernelSet& best = *kernel_sets().front();
  const KernelSet& reader = kernel_set_runs(best) ? best : set;
  bool in_range = true;
  const std::vector<double> readings = time_calls(options, [&] {
    in_range = reader.sums_in_range(from.data(), nullptr, layout.block_count()) && in_range;
  });
  PACELINE_CHECK(in_range && to == from);
  return {set.name, count, bytes / middle(copies) * 1e-9, bytes / middle(readings) * 1e-9};
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

Result<std::vector<const KernelSet*>> chosen_sets(const CodecBenchOptions& options) {
  std::vector<const KernelSet*> sets;
  for (const std::string& name : options.kernel_sets) {
    PACELINE_ASSIGN(const KernelSet* set, kernel_set_by_name(name));
    sets.push_back(set);
  }
  if (options.kernel_sets.empty())
    for (const KernelSet* set : kernel_sets())
      if (kernel_set_runs(*set)) sets.push_back(set);
  return sets;
}

Result<std::vector<CodecId>> chosen_codecs(const CodecBenchOptions& options) {
  std::vector<CodecId> ids;
  for (const std::string& name : options.codecs) {
    PACELINE_ASSIGN(const CodecId id, codec_by_name(name));
    ids.push_back(id);
  }
  if (options.codecs.empty())
    for (const CodecInfo& info : codecs()) ids.push_back(info.id);
  return ids;
}

// Puts the kernel set that was in use back.
class KernelsKept {
 public:
  KernelsKept() : before_(kernels()) {}
  ~KernelsKept() { use_kernels(before_); }
  KernelsKept(const KernelsKept&) = delete;
  KernelsKept& operator=(const KernelsKept&) = delete;

 private:
  const KernelSet& before_;
};

}  // namespace

Result<CodecBench> run_codec_bench(const CodecBenchOptions& options) {
  PACELINE_ASSIGN(const std::vector<const KernelSet*> sets, chosen_sets(options));
  PACELINE_ASSIGN(const std::vector<CodecId> ids, chosen_codecs(options));
  const KernelsKept kept;
  CodecBench bench{cpu_name(), __VERSION__, options.repeats, {}, {}};
  for (const uint32_t count : options.elements) {
    PACELINE_ASSIGN(const ParameterLayout layout,
                    ParameterLayout::make({{.name = "weight", .shape = {count}}}));
    for (const KernelSet* set : sets) {
      use_kernels(*set);
      const CodecYardstick yardstick = measure_yardstick(options, layout, *set, count);
      bench.yardsticks.push_back(yardstick);
      for (const CodecId id : ids) Bench(options, layout, yardstick, id, &bench.rates).run();
    }
  }
  return bench;
}

}  // namespace paceline
