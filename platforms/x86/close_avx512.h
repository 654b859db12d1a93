// What a round's end does to a model, in 512-bit registers.
#pragma once

#include "platforms/x86/block_avx512.h"

namespace paceline {

namespace {

bool subtract(const float* a, const float* b, size_t blocks, float* difference) {
  __m512i absmax[2] = {};
  for (size_t i = 0; i < blocks * kKernelBlock; i += 2 * kLanes)
    for (size_t k = 0; k < 2; ++k) {
      const size_t at = i + k * kLanes;
      const auto value = _mm512_sub_ps(_mm512_loadu_ps(a + at), _mm512_loadu_ps(b + at));
      _mm512_storeu_ps(difference + at, value);
      absmax[k] = _mm512_max_epu32(absmax[k], _mm512_castps_si512(magnitude(value)));
    }
  return _mm512_reduce_max_epu32(_mm512_max_epu32(absmax[0], absmax[1])) < kRangeBits;
}

// Sixteen values of the master after a close.
PACELINE_INLINE __m512 step(const float* sum, __m512 divisor, __m512 keep, const float* master) {
  __m512 mean = _mm512_loadu_ps(sum);
  mean = _mm512_maskz_div_ps(not_small(magnitude(mean), kSumFlushBits), mean, divisor);
  const __m512 kept = _mm512_mul_ps(_mm512_loadu_ps(master), keep);
  return flush(_mm512_mask_add_ps(kept, not_small(magnitude(mean), kFlushBits), kept, mean));
}

void apply_mean(const float* sum, float divisor, float keep, size_t blocks, float* master) {
  const __m512 divisor_16 = _mm512_set1_ps(divisor);
  const __m512 keep_16 = _mm512_set1_ps(keep);
  for (size_t i = 0; i < blocks * kKernelBlock; i += kLanes)
    _mm512_storeu_ps(master + i, step(sum + i, divisor_16, keep_16, master + i));
}

// Takes the step at element `i`; returns by how much the master then differs from what the workers
// hold.
PACELINE_INLINE __m512 step_and_subtract(const ClosingBlocks& closing, size_t i) {
  fetch_ahead(closing, i);
  const __m512 master = step(closing.sum + i, _mm512_set1_ps(closing.divisor),
                             _mm512_set1_ps(closing.keep), closing.master + i);
  _mm512_storeu_ps(closing.master + i, master);
  return _mm512_sub_ps(master, _mm512_loadu_ps(closing.published + i));
}

bool close(const ClosingBlocks& given, float* difference) {
  const ClosingBlocks closing = given;  // no store can change a copy, so it stays in registers
  __m512i absmax = _mm512_setzero_si512();
  for (size_t i = 0; i < closing.blocks * kKernelBlock; i += kLanes) {
    const __m512 change = step_and_subtract(closing, i);
    absmax = _mm512_max_epu32(absmax, _mm512_castps_si512(magnitude(change)));
    _mm512_storeu_ps(difference + i, change);
    _mm512_storeu_ps(closing.next + i, _mm512_loadu_ps(closing.published + i));
  }
  return _mm512_reduce_max_epu32(absmax) < kRangeBits;
}

bool close_q8(const ClosingBlocks& given, unsigned char* scales, unsigned char* codes) {
  const ClosingBlocks closing = given;
  for (size_t block = 0; block < closing.blocks; ++block) {
    const size_t first = block * kKernelBlock;
    __m512 c[kVectors];
    __m512i maxima[2] = {};
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      c[v] = step_and_subtract(closing, first + v * kLanes);
      maxima[v % 2] = _mm512_max_epu32(maxima[v % 2], _mm512_castps_si512(magnitude(c[v])));
    }
    const uint32_t absmax = _mm512_reduce_max_epu32(_mm512_max_epu32(maxima[0], maxima[1]));
    if (absmax >= kRangeBits) return false;
    // A zero block has the scale 0, and with an inverse of 0 nothing but zeros.
    const uint32_t scale_bits = absmax < kZeroBlockBits ? 0 : q8_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m512 scale_16 = _mm512_set1_ps(scale);
    const __m512 inverse_16 = _mm512_set1_ps(scale_bits == 0 ? 0.0f : 1.0f / scale);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; v += 4) {
      __m512i q[4];
      PACELINE_UNROLL
      for (size_t k = 0; k < 4; ++k) {
        const size_t i = first + (v + k) * kLanes;
        q[k] = _mm512_cvtps_epi32(_mm512_mul_ps(c[v + k], inverse_16));
        const __m512 published = _mm512_loadu_ps(closing.published + i);
        _mm512_storeu_ps(closing.next + i,
                         flush(_mm512_fmadd_ps(_mm512_cvtepi32_ps(q[k]), scale_16, published)));
      }
      _mm512_storeu_si512(codes + first + v * kLanes, pack_64(q));
    }
  }
  return true;
}

}  // namespace

}  // namespace paceline
