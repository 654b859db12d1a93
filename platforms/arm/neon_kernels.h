// The NEON kernels, in intrinsics that ARMv7 and ARMv8 share; quant_neon.cpp and quant_neon32.cpp
// are the two builds. ARMv7 has no rounding conversion, so Q8 rounds by adding and subtracting 1.5
// * 2^23, and its NEON flushes subnormals, which no legal value is (docs/wire_format.md).
//
// A block is 64 registers of four floats. Blocks are whole, so no loop has a tail.
#pragma once

#include <arm_neon.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

#define PACELINE_INLINE static inline __attribute__((always_inline))

constexpr size_t kLanes = 4;
constexpr size_t kWordElements = 32;  // whose signs make one 32-bit word
constexpr size_t kWords = kKernelBlock / kWordElements;
constexpr size_t kCodeBytes = kKernelBlock / 8;

PACELINE_INLINE uint32x4_t bits(float32x4_t v) { return vreinterpretq_u32_f32(v); }
PACELINE_INLINE float32x4_t floats(uint32x4_t v) { return vreinterpretq_f32_u32(v); }

PACELINE_INLINE uint32x4_t magnitude(float32x4_t v) {
  return vandq_u32(bits(v), vdupq_n_u32(kMagnitudeBits));
}

PACELINE_INLINE float32x4_t flip(float32x4_t v, uint32x4_t signs) {
  return floats(veorq_u32(bits(v), signs));
}

PACELINE_INLINE float32x4_t flush(float32x4_t v) {
  return floats(vandq_u32(bits(v), vcgeq_u32(magnitude(v), vdupq_n_u32(kFlushBits))));
}

PACELINE_INLINE uint32_t max_lane(uint32x4_t v) {
  const uint32x2_t two = vmax_u32(vget_low_u32(v), vget_high_u32(v));
  return vget_lane_u32(vpmax_u32(two, two), 0);
}

// The sixteen lanes of a mean, folded 16 -> 8 -> 4 -> 2 -> 1.
PACELINE_INLINE float fold(const float32x4_t lanes[4]) {
  const float32x4_t four = vaddq_f32(vaddq_f32(lanes[0], lanes[2]), vaddq_f32(lanes[1], lanes[3]));
  const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
  return vget_lane_f32(vpadd_f32(two, two), 0);
}

// Bits 4 k .. 4 k + 3 of a word as sign bits of four floats.
PACELINE_INLINE uint32x4_t sign_mask(uint32x4_t word, size_t k) {
  static const int32_t kFirst[4] = {31, 30, 29, 28};
  const int32x4_t shifts = vsubq_s32(vld1q_s32(kFirst), vdupq_n_s32(static_cast<int32_t>(4 * k)));
  return vandq_u32(vshlq_u32(word, shifts), vdupq_n_u32(kSignBit));
}

// Word i of a string of sign bits, in every lane.
PACELINE_INLINE uint32x4_t sign_word(const void* from, size_t i) {
  uint32_t word;
  memcpy(&word, static_cast<const unsigned char*>(from) + 4 * i, sizeof word);
  return vdupq_n_u32(word);
}

// The sign bits of 32 floats, first one lowest.
PACELINE_INLINE void store_signs(const float* values, unsigned char* codes) {
  static const int32_t kFirst[4] = {0, 1, 2, 3};
  uint32x4_t packed = vdupq_n_u32(0);
  for (size_t k = 0; k < kWordElements / kLanes; ++k) {
    const uint32x4_t sign = vshrq_n_u32(bits(vld1q_f32(values + k * kLanes)), 31);
    const int32x4_t shifts = vaddq_s32(vld1q_s32(kFirst), vdupq_n_s32(static_cast<int32_t>(4 * k)));
    packed = vorrq_u32(packed, vshlq_u32(sign, shifts));
  }
  const uint32x2_t two = vorr_u32(vget_low_u32(packed), vget_high_u32(packed));
  const uint32_t word = vget_lane_u32(two, 0) | vget_lane_u32(two, 1);
  memcpy(codes, &word, sizeof word);
}

// c = flush(update + residual) of a block, or of the update alone; returns the bits of the largest
// |c|.
PACELINE_INLINE uint32_t gather(const float* update, const float* residual, float* c) {
  uint32x4_t absmax[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
  for (size_t i = 0; i < kKernelBlock; i += 2 * kLanes)
    for (size_t k = 0; k < 2; ++k) {
      const size_t at = i + k * kLanes;
      float32x4_t sum = vld1q_f32(update + at);
      if (residual != nullptr) sum = vaddq_f32(sum, vld1q_f32(residual + at));
      absmax[k] = vmaxq_u32(absmax[k], magnitude(sum));
      vst1q_f32(c + at, flush(sum));
    }
  return max_lane(vmaxq_u32(absmax[0], absmax[1]));
}

PACELINE_INLINE float mean_magnitude(const float* values) {
  float32x4_t lanes[4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
  for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes)
    for (size_t k = 0; k < 4; ++k)
      lanes[k] = vaddq_f32(lanes[k], floats(magnitude(vld1q_f32(values + i + k * kLanes))));
  return fold(lanes) * (1.0f / 256.0f);
}

bool sums_in_range(const float* a, const float* b, size_t blocks) {
  uint32x4_t absmax[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
  for (size_t i = 0; i < blocks * kKernelBlock; i += 2 * kLanes)
    for (size_t k = 0; k < 2; ++k) {
      const size_t at = i + k * kLanes;
      float32x4_t sum = vld1q_f32(a + at);
      if (b != nullptr) sum = vaddq_f32(sum, vld1q_f32(b + at));
      absmax[k] = vmaxq_u32(absmax[k], magnitude(sum));
    }
  return max_lane(vmaxq_u32(absmax[0], absmax[1])) < kRangeBits;
}

// Codes and residual of eight elements.
PACELINE_INLINE void encode_q8_8(const float* c, float32x4_t scale, float32x4_t inverse,
                                 float* residual, unsigned char* codes) {
  const float32x4_t magic = vdupq_n_f32(12582912.0f);
  int16x4_t q[2];
  for (size_t k = 0; k < 2; ++k) {
    const float32x4_t value = vld1q_f32(c + k * kLanes);
    const float32x4_t rounded = vsubq_f32(vaddq_f32(vmulq_f32(value, inverse), magic), magic);
    if (residual != nullptr)
      vst1q_f32(residual + k * kLanes, flush(vsubq_f32(value, vmulq_f32(rounded, scale))));
    q[k] = vmovn_s32(vcvtq_s32_f32(rounded));
  }
  vst1_u8(codes, vreinterpret_u8_s8(vmovn_s16(vcombine_s16(q[0], q[1]))));
}

void encode_q8(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kKernelBlock) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kKernelBlock);
      continue;
    }
    const uint32_t scale_bits = q8_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const float32x4_t scale_4 = vdupq_n_f32(scale);
    const float32x4_t inverse_4 = vdupq_n_f32(1.0f / scale);
    for (size_t i = 0; i < kKernelBlock; i += 2 * kLanes)
      encode_q8_8(c + i, scale_4, inverse_4, residual == nullptr ? nullptr : residual + i,
                  codes + i);
  }
}

void encode_s1(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kCodeBytes) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    const float mean = mean_magnitude(c);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kCodeBytes);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    for (size_t word = 0; word < kWords; ++word)
      store_signs(c + word * kWordElements, codes + word * 4);
    if (residual == nullptr) continue;
    const uint32x4_t scale = vdupq_n_u32(scale_bits << 16);
    for (size_t i = 0; i < kKernelBlock; i += kLanes) {
      const float32x4_t value = vld1q_f32(c + i);
      const uint32x4_t sign = vandq_u32(bits(value), vdupq_n_u32(kSignBit));
      vst1q_f32(residual + i, flush(vsubq_f32(value, floats(vorrq_u32(scale, sign)))));
    }
  }
}

// Three stages across eight registers.
PACELINE_INLINE void across_8(float32x4_t v[8]) {
  for (size_t h = 1; h < 8; h *= 2)
    for (size_t group = 0; group < 8; group += 2 * h)
      for (size_t k = group; k < group + h; ++k) {
        const float32x4_t a = v[k];
        const float32x4_t b = v[k + h];
        v[k] = vaddq_f32(a, b);
        v[k + h] = vsubq_f32(a, b);
      }
}

// values = H(values) / 16: stages 1 and 2 in each register, 4 to 16 across neighbours, 32 to 128
// across registers 8 apart. a - b is taken as a + -b, which is the same to the bit.
PACELINE_INLINE void hadamard(float* values) {
  static const uint32_t kMinus1[4] = {0, kSignBit, 0, kSignBit};
  static const uint32_t kMinus2[4] = {0, 0, kSignBit, kSignBit};
  const uint32x4_t minus_1 = vld1q_u32(kMinus1);
  const uint32x4_t minus_2 = vld1q_u32(kMinus2);
  float32x4_t v[8];
  for (float* group = values; group < values + kKernelBlock; group += 8 * kLanes) {
    for (size_t k = 0; k < 8; ++k) {
      v[k] = vld1q_f32(group + k * kLanes);
      v[k] = vaddq_f32(vrev64q_f32(v[k]), flip(v[k], minus_1));
      v[k] = vaddq_f32(vextq_f32(v[k], v[k], 2), flip(v[k], minus_2));
    }
    across_8(v);
    for (size_t k = 0; k < 8; ++k) vst1q_f32(group + k * kLanes, v[k]);
  }
  for (float* first = values; first < values + 8 * kLanes; first += kLanes) {
    for (size_t k = 0; k < 8; ++k) v[k] = vld1q_f32(first + k * 8 * kLanes);
    across_8(v);
    for (size_t k = 0; k < 8; ++k)
      vst1q_f32(first + k * 8 * kLanes, vmulq_f32(v[k], vdupq_n_f32(0.0625f)));
  }
}

// Calls use(i, D's sign bits of elements i .. i + 3) over a block.
template <class Use>
PACELINE_INLINE void for_signs(const void* signs, Use use) {
  for (size_t word = 0; word < kWords; ++word) {
    const uint32x4_t word_bits = sign_word(signs, word);
    for (size_t k = 0; k < kWordElements / kLanes; ++k)
      use(word * kWordElements + k * kLanes, sign_mask(word_bits, k));
  }
}

// z = H(+-scale) / 16
PACELINE_INLINE void decode_rotated(const unsigned char* codes, float scale, float* z) {
  for_signs(codes,
            [&](size_t i, uint32x4_t sign) { vst1q_f32(z + i, flip(vdupq_n_f32(scale), sign)); });
  hadamard(z);
}

void encode_s1r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64, codes += kCodeBytes) {
    float c[kKernelBlock];
    float y[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    for_signs(signs,
              [&](size_t i, uint32x4_t sign) { vst1q_f32(y + i, flip(vld1q_f32(c + i), sign)); });
    hadamard(y);
    const float mean = mean_magnitude(y);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kCodeBytes);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    for (size_t word = 0; word < kWords; ++word)
      store_signs(y + word * kWordElements, codes + word * 4);
    if (residual == nullptr) continue;
    decode_rotated(codes, bf16_to_float(scale_bits), y);
    for_signs(signs, [&](size_t i, uint32x4_t sign) {
      const float32x4_t decoded = flip(vld1q_f32(y + i), sign);
      vst1q_f32(residual + i, flush(vsubq_f32(vld1q_f32(c + i), decoded)));
    });
  }
}

// Codes of eight elements.
struct Eight {
  float32x4_t low;
  float32x4_t high;
};
PACELINE_INLINE Eight floats(int8x8_t codes) {
  const int16x8_t wide = vmovl_s8(codes);
  return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))),
          vcvtq_f32_s32(vmovl_s16(vget_high_s16(wide)))};
}
PACELINE_INLINE Eight load_codes(const unsigned char* codes) {
  return floats(vreinterpret_s8_u8(vld1_u8(codes)));
}

PACELINE_INLINE void add_flushed(float* into, float32x4_t decoded) {
  vst1q_f32(into, flush(vaddq_f32(vld1q_f32(into), decoded)));
}

void add_q8(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock, into += kKernelBlock) {
    const float32x4_t scale = vdupq_n_f32(bf16_to_float(load_bf16(scales, block)));
    for (size_t i = 0; i < kKernelBlock; i += 2 * kLanes) {
      const Eight q = load_codes(codes + i);
      add_flushed(into + i, vmulq_f32(scale, q.low));
      add_flushed(into + i + kLanes, vmulq_f32(scale, q.high));
    }
  }
}

void add_s1(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kCodeBytes, into += kKernelBlock) {
    const float32x4_t scale = vdupq_n_f32(bf16_to_float(load_bf16(scales, block)));
    for_signs(codes, [&](size_t i, uint32x4_t sign) { add_flushed(into + i, flip(scale, sign)); });
  }
}

void add_s1r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kCodeBytes, into += kKernelBlock) {
    float z[kKernelBlock];
    decode_rotated(codes, bf16_to_float(load_bf16(scales, block)), z);
    for_signs(signs, [&](size_t i, uint32x4_t sign) {
      add_flushed(into + i, flip(vld1q_f32(z + i), sign));
    });
  }
}

// Both sums hold 32 elements in registers while they pass over the terms.
void sum_q8(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += kWordElements) {
    float32x4_t sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = vld1q_f32(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const float32x4_t weight = vdupq_n_f32(terms[t].weight);
      for (size_t k = 0; k < 8; k += 2) {
        const Eight q = load_codes(terms[t].codes + slice + k * kLanes);
        sums[k] = vaddq_f32(sums[k], vmulq_f32(weight, q.low));
        sums[k + 1] = vaddq_f32(sums[k + 1], vmulq_f32(weight, q.high));
      }
    }
    for (size_t k = 0; k < 8; ++k) vst1q_f32(acc + slice + k * kLanes, sums[k]);
  }
}

void sum_s1(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t word = 0; word < kWords; ++word) {
    float* slice = acc + word * kWordElements;
    float32x4_t sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = vld1q_f32(slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const float32x4_t weight = vdupq_n_f32(terms[t].weight);
      const uint32x4_t word_bits = sign_word(terms[t].codes, word);
      for (size_t k = 0; k < 8; ++k)
        sums[k] = vaddq_f32(sums[k], flip(weight, sign_mask(word_bits, k)));
    }
    for (size_t k = 0; k < 8; ++k) vst1q_f32(slice + k * kLanes, sums[k]);
  }
}

void unrotate_add(float* rotated, const uint64_t* signs, float* into) {
  hadamard(rotated);
  for_signs(signs, [&](size_t i, uint32x4_t sign) {
    vst1q_f32(into + i, vaddq_f32(vld1q_f32(into + i), flip(vld1q_f32(rotated + i), sign)));
  });
}

}  // namespace

}  // namespace paceline
