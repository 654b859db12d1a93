// Sums of many workers' payloads, and what a close does with them.
//
// Loop order: block outside, worker inside, one block of accumulators. It reads each payload once
// and keeps 1 KiB hot, whatever the number of workers, and fixes the order of every addition. Where
// a worker's codec is sparse, a tile of sixteen blocks is hot instead.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/payload.h"
#include "runtime/quant/rotation.h"

namespace paceline {

namespace {

// 2^-100 and 2^-90 as bit patterns: the bounds of a sum (docs/wire_format.md).
constexpr uint32_t kSumFlushBits = 0x0D800000u;

// Terms of one block on their way to a kernel, in groups that fit on the stack. A group ends where
// the coder changes; order is kept.
class TermGroup {
 public:
  explicit TermGroup(float* acc) : acc_(acc) {}

  void add(const BlockCoder& coder, BlockTerm term) {
    if (count_ == terms_.size() || coder_ != &coder) finish();
    coder_ = &coder;
    terms_[count_++] = term;
  }
  void finish() {
    if (count_ > 0) coder_->sum({terms_.data(), count_}, acc_);
    count_ = 0;
  }

 private:
  float* acc_;
  const BlockCoder* coder_ = nullptr;
  std::array<BlockTerm, 64> terms_;
  size_t count_ = 0;
};

// `group` counts from the part that `at` stands at.
BlockTerm term_of(const WeightedPayload& worker, const BlockCoder& coder, const PayloadOffsets& at,
                  size_t group) {
  const unsigned char* bytes = PayloadAccess::bytes(worker.payload);
  float weight = worker.weight;
  if (coder.scale_bytes > 0) weight *= bf16_to_float(load_bf16(bytes + at.scales(), group));
  if (!coder.sparse()) return {weight, bytes + at.codes() + group * coder.code_bytes};
  const EntryRange range = entry_range(bytes + at.ranges(), group);
  return {weight, bytes + at.entries() + range.begin, range.end - range.begin};
}

// Offsets of the present part for every codec, so that no worker needs a cursor of its own.
class CodecOffsets {
 public:
  CodecOffsets(const ParameterLayout& layout, ChunkRange range) {
    for (size_t i = 0; i < kCodecCount; ++i) {
      const CodecId id = codecs()[i].id;
      at_[i] = PayloadOffsets(payload_shape(layout, range, id), id);
    }
  }
  const PayloadOffsets& of(CodecId id) const { return at_[codec_position(id)]; }
  void pass(const ChunkPart& part) {
    for (PayloadOffsets& at : at_) at.pass(part);
  }

 private:
  std::array<PayloadOffsets, kCodecCount> at_;
};

// acc += the terms of consecutive workers with dense codecs, for `blocks` blocks from block `first`
// of the part on.
void sum_dense(const CodecOffsets& offsets, const ChunkPart& part,
               std::span<const WeightedPayload> workers, size_t first, size_t blocks, float* acc) {
  for (size_t block = first; block < first + blocks; ++block, acc += kBlockElements) {
    TermGroup group(acc);
    for (const WeightedPayload& worker : workers) {
      const PayloadOffsets& at = offsets.of(worker.payload.codec());
      const BlockCoder& coder = at.coder(part);
      if (!coder.rotated) group.add(coder, term_of(worker, coder, at, block));
    }
    group.finish();
  }
}

// First pass: sum = the terms of all blocks that are not rotated. A sparse codec's group covers
// several blocks, so the workers before it have to be through with all of them: a tile is as long.
void sum_unrotated(const ParameterLayout& layout, ChunkRange range,
                   std::span<const WeightedPayload> workers, float* sum) {
  CodecOffsets offsets(layout, range);
  for (ChunkParts part(layout, range); part.next(); offsets.pass(*part)) {
    for (size_t first = 0; first < part->block_count; first += kSparseGroupBlocks) {
      const size_t blocks = std::min<size_t>(kSparseGroupBlocks, part->block_count - first);
      float* acc = sum + (part->first_block + first) * kBlockElements;
      std::fill_n(acc, blocks * kBlockElements, 0.0f);
      for (std::span<const WeightedPayload> rest = workers; !rest.empty();) {
        const auto sparse = std::find_if(rest.begin(), rest.end(), [&](const auto& worker) {
          return offsets.of(worker.payload.codec()).coder(*part).sparse();
        });
        const size_t dense = static_cast<size_t>(sparse - rest.begin());
        sum_dense(offsets, *part, rest.first(dense), first, blocks, acc);
        rest = rest.subspan(dense);
        if (rest.empty()) break;
        const PayloadOffsets& at = offsets.of(rest.front().payload.codec());
        const BlockCoder& coder = at.coder(*part);
        const BlockTerm term = term_of(rest.front(), coder, at, first / kSparseGroupBlocks);
        coder.sum({&term, 1}, acc);
        rest = rest.subspan(1);
      }
    }
  }
}

bool is_rotated(const WeightedPayload& worker) {
  return block_coder(worker.payload.codec()).rotated;
}

// The smallest key above `last` of the workers with a rotated codec.
std::optional<uint64_t> next_key(std::span<const WeightedPayload> workers,
                                 std::optional<uint64_t> last) {
  std::optional<uint64_t> next;
  for (const WeightedPayload& worker : workers) {
    const uint64_t key = worker.payload.key();
    if (is_rotated(worker) && (!last || key > *last) && (!next || key < *next)) next = key;
  }
  return next;
}

// A later pass: sum += the inverse of the rotated blocks' sum under one key.
void sum_rotated(const ParameterLayout& layout, ChunkRange range,
                 std::span<const WeightedPayload> workers, RotationKey rotation, float* sum) {
  CodecOffsets offsets(layout, range);
  for (ChunkParts part(layout, range); part.next(); offsets.pass(*part)) {
    if (!part->wide) continue;
    for (size_t block = 0; block < part->block_count; ++block) {
      float acc[kBlockElements] = {};
      TermGroup group(acc);
      for (const WeightedPayload& worker : workers) {
        if (!is_rotated(worker) || worker.payload.key() != rotation.key) continue;
        const PayloadOffsets& at = offsets.of(worker.payload.codec());
        const BlockCoder& coder = at.coder(*part);
        group.add(coder, term_of(worker, coder, at, block));
      }
      group.finish();
      const size_t index = part->first_block + block;
      uint64_t signs[kSignWords];
      rotation_signs(rotation, index, signs);
      kernels().unrotate_add(acc, signs, sum + index * kBlockElements);
    }
  }
}

}  // namespace

double payload_norm_squared(const ParameterLayout& layout, const PayloadView& payload) {
  double total = 0;
  for_each_part(layout, payload, 0,
                [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedBytes& in,
                    size_t) { total += coder.norm_squared(blocks, in); });
  return total;
}

void sum_payloads(const ParameterLayout& layout, uint32_t chunk,
                  std::span<const WeightedPayload> payloads, uint64_t seed, std::span<float> sum) {
  PACELINE_CHECK(sum.size() == layout.element_count());
  for (const WeightedPayload& worker : payloads) PACELINE_CHECK(worker.payload.chunk() == chunk);
  const ChunkRange range = layout.chunk(chunk);
  sum_unrotated(layout, range, payloads, sum.data());
  for (std::optional<uint64_t> key = next_key(payloads, {}); key; key = next_key(payloads, key))
    sum_rotated(layout, range, payloads, {seed, *key}, sum.data());
}

float round_weight(double weight) {
  PACELINE_CHECK(std::isfinite(weight) && weight < 0x1p127);
  if (!(weight > 0x1p-12)) return 0x1p-12f;
  // Straight from double: a stop at float32 could round twice.
  constexpr int kDropped = 52 - 7;
  const uint64_t bits = std::bit_cast<uint64_t>(weight);
  const uint64_t half = (uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  return static_cast<float>(std::bit_cast<double>((bits + half) >> kDropped << kDropped));
}

void apply_mean(std::span<const float> sum, float divisor, float keep, std::span<float> master) {
  PACELINE_CHECK(sum.size() == master.size());
  PACELINE_CHECK(divisor > 0);
  for (size_t i = 0; i < sum.size(); ++i) {
    const uint32_t bits = bits_of(sum[i]);
    const float acc = float_of((bits & kMagnitudeBits) < kSumFlushBits ? 0u : bits);
    const float mean = flushed(acc / divisor);
    const float kept = keep == 1.0f ? master[i] : master[i] * keep;
    master[i] = flushed(kept + mean);
  }
}

}  // namespace paceline
