// Q4 and Q4R for NEON: two codes a byte, the first one in the lower half.
#pragma once

#include "platforms/arm/neon_kernels.h"

namespace paceline {

namespace {

constexpr size_t kQ4CodeBytes = kKernelBlock / 2;

// Codes of a block by its scale; what they decode to goes to `decoded`, which may be `values`.
PACELINE_INLINE void store_q4(const float* values, float scale, unsigned char* codes,
                              float* decoded) {
  const float32x4_t scale_4 = vdupq_n_f32(scale);
  const float32x4_t inverse = vdupq_n_f32(1.0f / scale);
  const float32x4_t magic = vdupq_n_f32(12582912.0f);
  for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes) {
    int16x4_t q[4];
    for (size_t k = 0; k < 4; ++k) {
      const float32x4_t product = vmulq_f32(vld1q_f32(values + i + k * kLanes), inverse);
      const float32x4_t rounded = vsubq_f32(vaddq_f32(product, magic), magic);
      vst1q_f32(decoded + i + k * kLanes, vmulq_f32(rounded, scale_4));
      q[k] = vmovn_s32(vcvtq_s32_f32(rounded));
    }
    const uint8x8_t first = vreinterpret_u8_s8(vmovn_s16(vcombine_s16(q[0], q[1])));
    const uint8x8_t second = vreinterpret_u8_s8(vmovn_s16(vcombine_s16(q[2], q[3])));
    const uint8x8x2_t halves = vuzp_u8(first, second);
    const uint8x8_t low = vand_u8(halves.val[0], vdup_n_u8(0x0F));
    vst1_u8(codes + i / 2, vorr_u8(low, vshl_n_u8(halves.val[1], 4)));
  }
}

void encode_q4(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kQ4CodeBytes) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kQ4CodeBytes);
      continue;
    }
    const uint32_t scale_bits = q4_scale(absmax);
    store_bf16(scales, block, scale_bits);
    float decoded[kKernelBlock];
    store_q4(c, bf16_to_float(scale_bits), codes, decoded);
    if (residual == nullptr) continue;
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      vst1q_f32(residual + i, flush(vsubq_f32(vld1q_f32(c + i), vld1q_f32(decoded + i))));
  }
}

PACELINE_INLINE uint32_t largest(const float* values) {
  uint32x4_t most = vdupq_n_u32(0);
  for (size_t i = 0; i < kKernelBlock; i += kLanes)
    most = vmaxq_u32(most, magnitude(vld1q_f32(values + i)));
  return max_lane(most);
}

void encode_q4r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64, codes += kQ4CodeBytes) {
    float c[kKernelBlock];
    float y[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    for_signs(signs,
              [&](size_t i, uint32x4_t sign) { vst1q_f32(y + i, flip(vld1q_f32(c + i), sign)); });
    hadamard(y);
    const uint32_t rotated_max = largest(y);
    if (absmax >= kRangeBits || rotated_max < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kQ4CodeBytes);
      continue;
    }
    const uint32_t scale_bits = q4_scale(rotated_max);
    store_bf16(scales, block, scale_bits);
    store_q4(y, bf16_to_float(scale_bits), codes, y);
    if (residual == nullptr) continue;
    hadamard(y);
    for_signs(signs, [&](size_t i, uint32x4_t sign) {
      const float32x4_t decoded = flip(vld1q_f32(y + i), sign);
      vst1q_f32(residual + i, flush(vsubq_f32(vld1q_f32(c + i), decoded)));
    });
  }
}

// Sixteen codes.
struct Sixteen {
  Eight half[2];
};
PACELINE_INLINE Sixteen load_q4(const unsigned char* codes) {
  const int8x8_t bytes = vreinterpret_s8_u8(vld1_u8(codes));
  const int8x8_t low = vshr_n_s8(vshl_n_s8(bytes, 4), 4);
  const int8x8x2_t both = vzip_s8(low, vshr_n_s8(bytes, 4));
  return {{floats(both.val[0]), floats(both.val[1])}};
}

void add_q4(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kQ4CodeBytes, into += kKernelBlock) {
    const float32x4_t scale = vdupq_n_f32(bf16_to_float(load_bf16(scales, block)));
    for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes) {
      const Sixteen q = load_q4(codes + i / 2);
      for (size_t k = 0; k < 2; ++k) {
        add_flushed(into + i + 2 * k * kLanes, vmulq_f32(scale, q.half[k].low));
        add_flushed(into + i + (2 * k + 1) * kLanes, vmulq_f32(scale, q.half[k].high));
      }
    }
  }
}

void add_q4r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kQ4CodeBytes, into += kKernelBlock) {
    const float32x4_t scale = vdupq_n_f32(bf16_to_float(load_bf16(scales, block)));
    float z[kKernelBlock];
    for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes) {
      const Sixteen q = load_q4(codes + i / 2);
      for (size_t k = 0; k < 2; ++k) {
        vst1q_f32(z + i + 2 * k * kLanes, vmulq_f32(scale, q.half[k].low));
        vst1q_f32(z + i + (2 * k + 1) * kLanes, vmulq_f32(scale, q.half[k].high));
      }
    }
    hadamard(z);
    for_signs(signs, [&](size_t i, uint32x4_t sign) {
      add_flushed(into + i, flip(vld1q_f32(z + i), sign));
    });
  }
}

void sum_q4(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += 4 * kLanes) {
    float32x4_t sums[4];
    for (size_t k = 0; k < 4; ++k) sums[k] = vld1q_f32(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const float32x4_t weight = vdupq_n_f32(terms[t].weight);
      const Sixteen q = load_q4(terms[t].codes + slice / 2);
      for (size_t k = 0; k < 2; ++k) {
        sums[2 * k] = vaddq_f32(sums[2 * k], vmulq_f32(weight, q.half[k].low));
        sums[2 * k + 1] = vaddq_f32(sums[2 * k + 1], vmulq_f32(weight, q.half[k].high));
      }
    }
    for (size_t k = 0; k < 4; ++k) vst1q_f32(acc + slice + k * kLanes, sums[k]);
  }
}

}  // namespace

}  // namespace paceline
