// TK's two passes over a group for NEON.
#pragma once

#include "platforms/arm/neon_kernels.h"

namespace paceline {

namespace {

uint32_t gather_maxima(const float* update, float* residual, size_t blocks, size_t strip,
                       uint32_t* maxima) {
  uint32x4_t absmax = vdupq_n_u32(0);
  for (size_t i = 0; i < blocks * kKernelBlock; i += 2 * kLanes * strip, maxima += 2 * kLanes)
    for (size_t k = 0; k < 2; ++k) {
      uint32x4_t most = vdupq_n_u32(0);
      for (size_t at = i + k * kLanes; at < i + 2 * kLanes * strip; at += 2 * kLanes) {
        float32x4_t c = vld1q_f32(update + at);
        if (residual != nullptr) {
          c = flush(vaddq_f32(c, vld1q_f32(residual + at)));
          vst1q_f32(residual + at, c);
        }
        most = vmaxq_u32(most, magnitude(c));
      }
      vst1q_u32(maxima + k * kLanes, most);
      absmax = vmaxq_u32(absmax, most);
    }
  return max_lane(absmax);
}

// Which of eight values have a magnitude of at least `least`: the first one's bit is the lowest.
PACELINE_INLINE uint64_t large_of_8(const float* values, uint32x4_t least) {
  const uint16x4_t low = vmovn_u32(vcgeq_u32(magnitude(vld1q_f32(values)), least));
  const uint16x4_t high = vmovn_u32(vcgeq_u32(magnitude(vld1q_f32(values + kLanes)), least));
  static const uint8_t kBits[8] = {1, 2, 4, 8, 16, 32, 64, 128};
  uint8x8_t bits = vand_u8(vmovn_u16(vcombine_u16(low, high)), vld1_u8(kBits));
  for (int half = 0; half < 3; ++half) bits = vpadd_u8(bits, bits);
  return vget_lane_u8(bits, 0);
}

size_t find_large(const float* values, size_t blocks, uint32_t least, uint16_t* positions) {
  const uint32x4_t bound = vdupq_n_u32(least);
  size_t found = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0; k < 64; k += 8) word |= large_of_8(values + i + k, bound) << k;
    found += put_positions(word, i, positions + found);
  }
  return found;
}

}  // namespace

}  // namespace paceline
