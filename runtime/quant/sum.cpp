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

// acc += the terms of consecutive workers with dense codecs.
void ChunkSum::sum_dense(std::span<const WeightedPayload> workers, size_t first, size_t blocks,
                         float* acc) const {
  for (size_t block = first; block < first + blocks; ++block, acc += kBlockElements) {
    TermGroup group(acc);
    for (const WeightedPayload& worker : workers) {
      const Cursor& cursor = cursor_of(worker);
      if (!cursor.coder->rotated)
        group.add(*cursor.coder, term_of(worker, *cursor.coder, cursor.at, block));
    }
    group.finish();
  }
}

// acc += the inverse of the rotated blocks' sum under one key.
void ChunkSum::add_rotated(RotationKey rotation, size_t first, size_t blocks, float* acc) const {
  for (size_t block = first; block < first + blocks; ++block, acc += kBlockElements) {
    float rotated[kBlockElements] = {};
    TermGroup group(rotated);
    for (const WeightedPayload& worker : payloads_) {
      const Cursor& cursor = cursor_of(worker);
      if (cursor.coder->rotated && worker.payload.key() == rotation.key)
        group.add(*cursor.coder, term_of(worker, *cursor.coder, cursor.at, block));
    }
    group.finish();
    uint64_t signs[kSignWords];
    rotation_signs(rotation, part_.first_block + block, signs);
    kernels().unrotate_add(rotated, signs, acc);
  }
}

void ChunkSum::sum_tile(size_t first, size_t blocks, float* acc) const {
  std::fill_n(acc, blocks * kBlockElements, 0.0f);
  for (std::span<const WeightedPayload> rest = payloads_; !rest.empty();) {
    const auto sparse = std::find_if(rest.begin(), rest.end(), [&](const WeightedPayload& worker) {
      return cursor_of(worker).coder->sparse();
    });
    const size_t dense = static_cast<size_t>(sparse - rest.begin());
    sum_dense(rest.first(dense), first, blocks, acc);
    rest = rest.subspan(dense);
    if (rest.empty()) break;
    const Cursor& cursor = cursor_of(rest.front());
    const BlockTerm term =
        term_of(rest.front(), *cursor.coder, cursor.at, first / kSparseGroupBlocks);
    cursor.coder->sum({&term, 1}, acc);
    rest = rest.subspan(1);
  }
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
  PACELINE_CHECK(sum.size() == master.size() && sum.size() % kBlockElements == 0);
  PACELINE_CHECK(divisor > 0);
  kernels().apply_mean(sum.data(), divisor, keep, sum.size() / kBlockElements, master.data());
}

}  // namespace paceline
