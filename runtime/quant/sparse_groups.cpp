#include "runtime/quant/sparse_groups.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/base/check.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

namespace {

constexpr uint32_t kSkip = 255;
constexpr unsigned char kRefusedCode = 0x80;  // -128
constexpr float kScaleMax = 0x1p113f;         // as Q8's
constexpr uint32_t kGroupElementsMax = kSparseGroupBlocks * kBlockElements;
// Values of which gather_maxima() gives the largest.
constexpr uint32_t kShortStrip = 8;
constexpr uint32_t kLongStrip = 32;
constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: rounds half to even

// Calls visit(element, code) for each entry of a verified group.
template <class Visit>
void for_entries(const unsigned char* entries, size_t bytes, Visit visit) {
  const unsigned char* end = entries + bytes;
  for (size_t element = 0; entries < end;) {
    element += *entries;
    if (*entries++ == kSkip) continue;
    visit(element++, static_cast<int8_t>(*entries++));
  }
}

// Counts magnitudes between two bounds, in steps of a power of two.
class Buckets {
 public:
  Buckets(uint32_t low, uint32_t high) : low_(low), shift_(0), last_(high - low) {
    while (last_ >= kCount) last_ = (high - low) >> ++shift_;
  }

  void count(uint32_t magnitude) { ++counts_[index(magnitude)]; }
  uint32_t index(uint32_t magnitude) const { return (magnitude - low_) >> shift_; }
  // The bucket of the rank-th largest; takes from *rank those in the buckets above it.
  uint32_t find(uint32_t* rank) const {
    uint32_t bucket = last_;
    for (; bucket > 0 && counts_[bucket] < *rank; --bucket) *rank -= counts_[bucket];
    return bucket;
  }
  size_t held(uint32_t bucket) const { return counts_[bucket]; }
  // The bounds of a bucket's magnitudes.
  uint32_t least(uint32_t bucket) const { return low_ + (bucket << shift_); }
  uint32_t most(uint32_t bucket) const { return least(bucket) + ((uint32_t{1} << shift_) - 1); }

 private:
  static constexpr uint32_t kCount = 128;
  uint32_t low_;
  uint32_t shift_;
  uint32_t last_;
  uint16_t counts_[kCount] = {};
};

// A magnitude that at least `rank` elements reach, near that of the rank-th largest: each strip's
// largest is one element. Only counts, until few are left between it and the bound.
uint32_t lower_bound_of_rank(std::span<const uint32_t> maxima, uint32_t rank, uint32_t largest) {
  constexpr size_t kSample = 32;
  const auto sample = maxima.first(std::min(maxima.size(), kSample));
  uint32_t bound = 0;
  uint32_t low = *std::min_element(sample.begin(), sample.end());  // a guess
  uint32_t high = largest;
  for (;;) {
    Buckets buckets(low, high);
    for (const uint32_t magnitude : maxima)
      if (magnitude <= high) buckets.count(std::max(magnitude, low));
    const uint32_t bucket = buckets.find(&rank);
    if (bucket > 0) bound = buckets.least(bucket);
    const bool few = buckets.held(bucket) <= maxima.size() / 8;
    if (few && buckets.least(bucket) == bound) return bound;
    low = bound;
    high = std::min(buckets.most(bucket), high);
    if (low >= high) return bound;
  }
}

// Orders elements by magnitude, and equal ones by their place, lower first.
uint64_t rank_key(const float* c, uint16_t position) {
  return uint64_t{bits_of(c[position]) & kMagnitudeBits} << 16 | (UINT16_MAX - position);
}

uint32_t magnitude_of(uint64_t rank_key) { return static_cast<uint32_t>(rank_key >> 16); }

// The rank-th largest of the keys, whose order is lost; their magnitudes are from `low` to `high`.
// Where most elements were held back before, many are nearly equal; each count leaves few to
// compare, and no branch depends on one key.
uint64_t key_of_rank(std::span<uint64_t> keys, uint32_t rank, uint32_t low, uint32_t high) {
  constexpr size_t kFew = 8;
  while (keys.size() > kFew && low < high) {
    Buckets buckets(low, high);
    for (const uint64_t key : keys) buckets.count(magnitude_of(key));
    const uint32_t bucket = buckets.find(&rank);
    size_t kept = 0;
    for (const uint64_t key : keys) {
      keys[kept] = key;
      kept += buckets.index(magnitude_of(key)) == bucket ? 1 : 0;
    }
    keys = keys.first(kept);
    low = buckets.least(bucket);
    high = std::min(buckets.most(bucket), high);
  }
  const auto nth = keys.begin() + (rank - 1);
  std::nth_element(keys.begin(), nth, keys.end(), std::greater<>());
  return *nth;
}

// Keeps the `keep` largest of the positions, in their order; the magnitudes there are from `least`
// to `largest`.
void keep_largest(const float* c, uint16_t* positions, size_t count, uint32_t keep, uint32_t least,
                  uint32_t largest) {
  uint64_t keys[kGroupElementsMax];
  for (size_t i = 0; i < count; ++i) keys[i] = rank_key(c, positions[i]);
  const uint64_t last = key_of_rank(std::span(keys, count), keep, least, largest);
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint16_t position = positions[i];
    positions[kept] = position;
    kept += rank_key(c, position) >= last ? 1 : 0;
  }
  PACELINE_CHECK(kept == keep);
}

unsigned char* put_gap(uint32_t gap, unsigned char* to) {
  for (; gap >= kSkip; gap -= kSkip) *to++ = kSkip;
  *to++ = static_cast<unsigned char>(gap);
  return to;
}

// Entries for the elements at `positions`; where c is the residual, it loses them. Returns the
// entries' end.
unsigned char* write_entries(std::span<const uint16_t> positions, float scale, const float* c,
                             float* residual, unsigned char* to) {
  const float inverse = 1.0f / scale;
  uint32_t next = 0;
  for (const uint16_t position : positions) {
    const float q = (c[position] * inverse + kRoundMagic) - kRoundMagic;
    if (q == 0) continue;
    to = put_gap(position - next, to);
    *to++ = static_cast<unsigned char>(static_cast<int32_t>(q));
    if (residual != nullptr) residual[position] = flushed(c[position] - q * scale);
    next = position + 1u;
  }
  return to;
}

// Encodes one group; returns how many bytes its entries have. `residual` may be null.
size_t encode_group(uint32_t blocks, uint32_t entries_max, const float* update, float* residual,
                    unsigned char* scale, unsigned char* entries) {
  // At least twice as many strips as entries: the more, the nearer is the bound on the magnitude.
  const uint32_t strip = blocks * kBlockElements >= 64 * entries_max ? kLongStrip : kShortStrip;
  uint32_t maxima[kGroupElementsMax / kShortStrip];
  const uint32_t largest = kernels().gather_maxima(update, residual, blocks, strip, maxima);
  if (largest < kZeroBlockBits) {
    store_bf16(scale, 0, 0);
    return 0;
  }
  const float* c = residual == nullptr ? update : residual;
  const uint32_t scale_bits = q8_scale(largest);
  store_bf16(scale, 0, scale_bits);
  const std::span strips(maxima, blocks * kBlockElements / strip);
  const uint32_t least =
      std::max<uint32_t>(lower_bound_of_rank(strips, entries_max, largest), kFlushBits);
  uint16_t positions[kGroupElementsMax + 16];
  size_t found = kernels().find_large(c, blocks, least, positions);
  if (found > entries_max) {
    keep_largest(c, positions, found, entries_max, least, largest);
    found = entries_max;
  }
  const unsigned char* end =
      write_entries({positions, found}, bf16_to_float(scale_bits), c, residual, entries);
  return static_cast<size_t>(end - entries);
}

// Calls visit(group, first_block, blocks) for each group; first_block counts from the first of
// `blocks`.
template <class Visit>
void for_groups(const CodedBlocks& blocks, Visit visit) {
  for (uint32_t first = 0; first < blocks.block_count; first += kSparseGroupBlocks)
    visit(first / kSparseGroupBlocks, first,
          std::min(kSparseGroupBlocks, blocks.block_count - first));
}

Status verify_entries(uint32_t block, uint32_t elements, uint32_t entries_max,
                      const unsigned char* at, const unsigned char* end) {
  uint32_t entries = 0;
  for (uint32_t element = 0; at < end; ++element, ++entries) {
    for (; at < end && *at == kSkip; ++at) element += kSkip;
    if (end - at < 2) return fail(Code::kCorrupt, "block %u: its entries end within one", block);
    element += at[0];
    if (element >= elements)
      return fail(Code::kCorrupt, "block %u: entry for element %u, its group has %u", block,
                  element, elements);
    if (at[1] == 0 || at[1] == kRefusedCode)
      return fail(Code::kCorrupt, "block %u: code %d in an entry", block,
                  static_cast<int8_t>(at[1]));
    at += 2;
  }
  if (entries > entries_max)
    return fail(Code::kCorrupt, "block %u: %u entries in its group, at most %u", block, entries,
                entries_max);
  return {};
}

}  // namespace

void encode_sparse(const CodedBlocks& blocks, uint32_t percent, const float* update,
                   float* residual, const CodedOutput& out) {
  for_groups(blocks, [&](uint32_t group, uint32_t first, uint32_t count) {
    const size_t element = size_t{first} * kBlockElements;
    uint16_t bound = 0;
    std::memcpy(&bound, out.ranges + group * sizeof bound, sizeof bound);
    bound = static_cast<uint16_t>(
        bound + encode_group(count, sparse_entries_max(count, percent), update + element,
                             residual == nullptr ? nullptr : residual + element,
                             out.scales + group * 2, out.codes + bound));
    std::memcpy(out.ranges + (group + 1) * sizeof bound, &bound, sizeof bound);
  });
}

Status verify_sparse(const CodedBlocks& blocks, uint32_t percent, const CodedBytes& in) {
  Status status;
  for_groups(blocks, [&](uint32_t group, uint32_t first, uint32_t count) {
    if (!status.ok()) return;
    const uint32_t block = blocks.first_block + first;
    const uint32_t scale = load_bf16(in.scales, group);
    const EntryRange range = entry_range(in.ranges, group);
    if (!scale_is_legal(scale, kScaleMax))
      status = illegal_scale(block, scale);
    else if ((scale == 0) != (range.begin == range.end))
      status = fail(Code::kCorrupt, "block %u: scale 0x%04x with %u bytes of entries", block, scale,
                    range.end - range.begin);
    else
      status = verify_entries(block, count * kBlockElements, sparse_entries_max(count, percent),
                              in.codes + range.begin, in.codes + range.end);
  });
  return status;
}

void add_sparse(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  for_groups(blocks, [&](uint32_t group, uint32_t first, uint32_t) {
    const EntryRange range = entry_range(in.ranges, group);
    const float scale = bf16_to_float(load_bf16(in.scales, group));
    float* values = into + size_t{first} * kBlockElements;
    for_entries(in.codes + range.begin, range.end - range.begin, [&](size_t element, int8_t code) {
      values[element] = flushed(values[element] + scale * static_cast<float>(code));
    });
  });
}

void sum_sparse(std::span<const BlockTerm> terms, float* acc) {
  for (const BlockTerm& term : terms)
    for_entries(term.codes, term.code_bytes, [&](size_t element, int8_t code) {
      acc[element] += term.weight * static_cast<float>(code);
    });
}

double sparse_norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  double total = 0;
  for_groups(blocks, [&](uint32_t group, uint32_t, uint32_t) {
    const EntryRange range = entry_range(in.ranges, group);
    uint64_t squares = 0;
    for_entries(in.codes + range.begin, range.end - range.begin, [&](size_t, int8_t code) {
      squares += static_cast<uint64_t>(int32_t{code} * code);
    });
    const double scale = bf16_to_float(load_bf16(in.scales, group));
    total += scale * scale * static_cast<double>(squares);
  });
  return total;
}

}  // namespace paceline
