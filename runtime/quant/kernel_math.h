// The number rules that every kernel set shares, as bit patterns and single float32 operations.
//
// `static inline` on purpose: a kernel file is built with flags above the baseline, and an inline
// function with external linkage would leave a weak copy that the linker may take for the whole
// program.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/quant/kernels.h"

namespace paceline {

enum : uint32_t {
  kSignBit = 0x80000000u,
  kMagnitudeBits = 0x7FFFFFFFu,
  kFlushBits = 0x12800000u,      // 2^-90: anything smaller in magnitude becomes +0
  kZeroBlockBits = 0x17800000u,  // 2^-80: a block whose absmax or mean is smaller is a zero block
  kRangeBits = 0x7B000000u,      // 2^119: nothing of this magnitude or above is encoded
  kSumFlushBits = 0x0D800000u,   // 2^-100: a smaller sum of many workers becomes +0
  kScaleRefused = 0x7FC0,        // bf16 NaN: the scale of a block that holds such a value

  // bf16 2^-60: from this scale on no residual of Q8, Q4, S1 or S1R needs a flush. Where c and what
  // it decodes to are near each other, their difference is +0 or at least 2^-30 of the scale; where
  // they are not, it is as large as one of them, and c was flushed. Nor does adding S1's +-scale to
  // anything.
  kSmallScale = 0x2180,
  // 2^110: the mean magnitude of a block, rotated or not, that holds kRangeBits or more is larger.
  kLargeMeanBits = 0x76800000u,
};

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float flushed(float value) {
  const uint32_t bits = bits_of(value);
  return float_of((bits & kMagnitudeBits) < kFlushBits ? 0u : bits);
}

static inline float bf16_to_float(uint32_t bf16) { return float_of(bf16 << 16); }

// For finite values.
static inline uint32_t bf16_half_even(float value) {
  const uint32_t bits = bits_of(value);
  return (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
}

// For finite values >= 0: any dropped bit adds one.
static inline uint32_t bf16_up(float value) { return (bits_of(value) + 0xFFFFu) >> 16; }

// The Q8 scale of a block from the bits of its largest magnitude, at least kZeroBlockBits. Rounded
// up, so that |c / scale| <= 127 and no code is ever clipped.
static inline uint32_t q8_scale(uint32_t absmax_bits) {
  return bf16_up(float_of(absmax_bits) * (1.0f / 127.0f));
}

// The Q4 scale, likewise: |c / scale| <= 7.
static inline uint32_t q4_scale(uint32_t absmax_bits) {
  return bf16_up(float_of(absmax_bits) / 7.0f);
}

// Little-endian, at any alignment; `index` counts numbers.
static inline uint32_t load_bf16(const unsigned char* bytes, size_t index) {
  return static_cast<uint32_t>(bytes[2 * index]) |
         (static_cast<uint32_t>(bytes[2 * index + 1]) << 8);
}

static inline void store_bf16(unsigned char* bytes, size_t index, uint32_t bf16) {
  bytes[2 * index] = static_cast<unsigned char>(bf16 & 0xFFu);
  bytes[2 * index + 1] = static_cast<unsigned char>(bf16 >> 8);
}

// Steps to the next block; none stays none.
static inline float* next_block(float* residual) {
  return residual == nullptr ? nullptr : residual + kKernelBlock;
}

// What becomes of a block that is not encoded: all small, or with a value out of range.
static inline void skip_block(bool zero, const float* update, float* residual,
                              unsigned char* scales, size_t block, unsigned char* codes,
                              size_t code_bytes) {
  store_bf16(scales, block, zero ? 0u : kScaleRefused);
  memset(codes, 0, code_bytes);
  if (!zero || residual == nullptr) return;
  for (size_t i = 0; i < kKernelBlock; ++i) residual[i] = flushed(update[i] + residual[i]);
}

// Whether a block may be one that is not encoded, by its mean magnitude alone. It spares a kernel
// that needs no more than the mean the search for the largest magnitude.
static inline bool mean_is_extreme(float mean) {
  return bits_of(mean) < kZeroBlockBits || bits_of(mean) >= kLargeMeanBits;
}

// Looks closer at such a block: whether it was one, and is dealt with.
static inline bool skip_extreme_block(float mean, const float* update, float* residual,
                                      unsigned char* scales, size_t block, unsigned char* codes,
                                      size_t code_bytes) {
  bool in_range = true;
  for (size_t i = 0; i < kKernelBlock; ++i) {
    const float c = residual == nullptr ? update[i] : update[i] + residual[i];
    if ((bits_of(c) & kMagnitudeBits) >= kRangeBits) in_range = false;
  }
  if (in_range && bits_of(mean) >= kZeroBlockBits) return false;
  skip_block(in_range, update, residual, scales, block, codes, code_bytes);
  return true;
}

// Positions of the bits of `word`, counted from `first`. Four are written whether or not there are
// so many: where hits are few, a branch for each would be guessed wrong.
static inline size_t put_positions(uint64_t word, size_t first, uint16_t* positions) {
  const size_t count = static_cast<size_t>(__builtin_popcountll(word));
  for (size_t i = 0; i < 4; ++i, word &= word - 1)
    positions[i] = static_cast<uint16_t>(
        first + static_cast<size_t>(__builtin_ctzll(word | uint64_t{1} << 63)));
  if (count > 4)
    for (size_t i = 4; i < count; ++i, word &= word - 1)
      positions[i] = static_cast<uint16_t>(first + static_cast<size_t>(__builtin_ctzll(word)));
  return count;
}

// Asks for what a close needs at element `i` of the next tile, a cache line of it: one core waits
// for what it has not asked for, and a close walks along more lines than the CPU follows by itself.
static inline void fetch_ahead(const ClosingBlocks& closing, size_t i) {
  const size_t ahead = i + size_t{kAheadBlocks} * kKernelBlock;
  __builtin_prefetch(closing.master + ahead, 1, 2);
  __builtin_prefetch(closing.published + ahead, 0, 2);
  __builtin_prefetch(closing.next + ahead, 1, 2);
}

}  // namespace paceline
