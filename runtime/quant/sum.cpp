// Sums of many workers' payloads, and what a close does with them.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/quant/chunk_sum.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"

namespace paceline {

namespace {

// Workers of one coder on their way to a kernel, in groups that fit on the stack. A group ends
// where the coder changes; order is kept. Each group goes over the tile's blocks by itself, which
// stay in the first-level cache.
class TileGroup {
 public:
  // acc += the terms of `blocks` blocks, from the part's block `first` on.
  TileGroup(size_t first, size_t blocks, float* acc) : first_(first), blocks_(blocks), acc_(acc) {}

  void add(const WeightedPayload& worker, const BlockCoder& coder, const PayloadOffsets& at) {
    if (count_ == sources_.size() || coder_ != &coder) finish();
    coder_ = &coder;
    const unsigned char* bytes = PayloadAccess::bytes(worker.payload);
    sources_[count_++] = {worker.weight, bytes + at.scales(), bytes + at.codes()};
  }
  void finish() {
    if (count_ == 0) return;
    std::array<BlockTerm, kWorkersMax> terms;
    for (size_t block = 0; block < blocks_; ++block) {
      for (size_t i = 0; i < count_; ++i) terms[i] = term(sources_[i], first_ + block);
      coder_->sum({terms.data(), count_}, acc_ + block * kBlockElements);
    }
    count_ = 0;
  }

 private:
  static constexpr size_t kWorkersMax = 64;
  struct Source {
    float weight;
    const unsigned char* scales;
    const unsigned char* codes;
  };

  BlockTerm term(const Source& source, size_t block) const {
    const float scale =
        coder_->scale_bytes > 0 ? bf16_to_float(load_bf16(source.scales, block)) : 1.0f;
    return {source.weight * scale, source.codes + block * coder_->code_bytes};
  }

  size_t first_;
  size_t blocks_;
  float* acc_;
  const BlockCoder* coder_ = nullptr;
  std::array<Source, kWorkersMax> sources_;
  size_t count_ = 0;
};

// acc += the terms of one worker with a sparse codec; `group` counts from the part's begin.
void add_sparse_group(const WeightedPayload& worker, const BlockCoder& coder,
                      const PayloadOffsets& at, size_t group, float* acc) {
  const unsigned char* bytes = PayloadAccess::bytes(worker.payload);
  const EntryRange range = entry_range(bytes + at.ranges(), group);
  const float scale = bf16_to_float(load_bf16(bytes + at.scales(), group));
  const BlockTerm term{worker.weight * scale, bytes + at.entries() + range.begin,
                       range.end - range.begin};
  coder.sum({&term, 1}, acc);
}

// Block by block: a longer fill is left to the CPU's string instruction, which starts slowly.
void clear_blocks(float* values, size_t blocks) {
  for (size_t block = 0; block < blocks; ++block)
    std::fill_n(values + block * kBlockElements, kBlockElements, 0.0f);
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

}  // namespace

ChunkSum::ChunkSum(const ParameterLayout& layout, ChunkRange range,
                   std::span<const WeightedPayload> payloads, uint64_t seed)
    : payloads_(payloads), seed_(seed) {
  for (size_t i = 0; i < kCodecCount; ++i) {
    const CodecId id = codecs()[i].id;
    cursors_[i].at = PayloadOffsets(payload_shape(layout, range, id), id);
  }
}

void ChunkSum::enter(const ChunkPart& part) {
  for (Cursor& cursor : cursors_) {
    if (part_.block_count > 0) cursor.at.pass(part_);
    cursor.coder = &cursor.at.coder(part);
  }
  part_ = part;
}

// acc += the inverse of the rotated blocks' sum under one key.
void ChunkSum::add_rotated(RotationKey rotation, size_t first, size_t blocks, float* acc) const {
  alignas(kLineBytes) float rotated[kTileBlocks * kBlockElements];
  clear_blocks(rotated, blocks);
  TileGroup group(first, blocks, rotated);
  for (const WeightedPayload& worker : payloads_) {
    const Cursor& cursor = cursor_of(worker);
    if (cursor.coder->rotated && worker.payload.key() == rotation.key)
      group.add(worker, *cursor.coder, cursor.at);
  }
  group.finish();
  for (size_t block = 0; block < blocks; ++block) {
    uint64_t signs[kSignWords];
    rotation_signs(rotation, part_.first_block + first + block, signs);
    kernels().unrotate_add(rotated + block * kBlockElements, signs, acc + block * kBlockElements);
  }
}

void ChunkSum::sum_tile(size_t first, size_t blocks, float* acc) const {
  clear_blocks(acc, blocks);
  TileGroup group(first, blocks, acc);
  for (const WeightedPayload& worker : payloads_) {
    const Cursor& cursor = cursor_of(worker);
    if (cursor.coder->rotated) continue;
    if (!cursor.coder->sparse()) {
      group.add(worker, *cursor.coder, cursor.at);
      continue;
    }
    group.finish();
    add_sparse_group(worker, *cursor.coder, cursor.at, first / kSparseGroupBlocks, acc);
  }
  group.finish();
  if (!part_.wide) return;
  for (std::optional<uint64_t> key = next_key(payloads_, {}); key; key = next_key(payloads_, key))
    add_rotated({seed_, *key}, first, blocks, acc);
}

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
  ChunkSum tiles(layout, range, payloads, seed);
  for (ChunkParts part(layout, range); part.next();) {
    tiles.enter(*part);
    for (uint32_t first = 0; first < part->block_count; first += kTileBlocks)
      tiles.sum_tile(first, std::min(kTileBlocks, part->block_count - first),
                     sum.data() + size_t{part->first_block + first} * kBlockElements);
  }
}

float round_weight(double weight) { return weight > 0x1p-12 ? round_bf16(weight) : 0x1p-12f; }

float round_bf16(double weight) {
  PACELINE_CHECK(weight >= 0x1p-100 && weight < 0x1p100);
  // Straight from double: a stop at float32 could round twice.
  constexpr int kDropped = 52 - 7;
  const uint64_t bits = std::bit_cast<uint64_t>(weight);
  const uint64_t half = (uint64_t{1} << (kDropped - 1)) - 1 + (bits >> kDropped & 1);
  return static_cast<float>(std::bit_cast<double>((bits + half) >> kDropped << kDropped));
}

void apply_mean(std::span<const float> sum, float divisor, float keep, std::span<float> master) {
  PACELINE_CHECK(sum.size() == master.size() && sum.size() % kBlockElements == 0);
  PACELINE_CHECK(divisor > 0);
  kernels().apply_mean(sum.data(), divisor, keep, sum.size() / kBlockElements, master.data());
}

}  // namespace paceline
