// What a round's end does to a model, in 256-bit registers.
#pragma once

#include "platforms/x86/block_avx2.h"

namespace paceline {

namespace {

bool subtract(const float* a, const float* b, size_t blocks, float* difference) {
  __m256i absmax[2] = {};
  for (size_t i = 0; i < blocks * kKernelBlock; i += 2 * kLanes)
    for (size_t k = 0; k < 2; ++k) {
      const size_t at = i + k * kLanes;
      const auto value = _mm256_sub_ps(_mm256_loadu_ps(a + at), _mm256_loadu_ps(b + at));
      _mm256_storeu_ps(difference + at, value);
      absmax[k] = _mm256_max_epi32(absmax[k], _mm256_castps_si256(magnitude(value)));
    }
  return max_lane(_mm256_max_epi32(absmax[0], absmax[1])) < kRangeBits;
}

// Eight values of the master after a close.
PACELINE_INLINE __m256 step(const float* sum, __m256 divisor, __m256 keep, const float* master) {
  __m256 mean = _mm256_loadu_ps(sum);
  mean = _mm256_and_ps(mean, not_small(magnitude(mean), kSumFlushBits));
  mean = flush(_mm256_div_ps(mean, divisor));
  return flush(_mm256_add_ps(_mm256_mul_ps(_mm256_loadu_ps(master), keep), mean));
}

void apply_mean(const float* sum, float divisor, float keep, size_t blocks, float* master) {
  const __m256 divisor_8 = _mm256_set1_ps(divisor);
  const __m256 keep_8 = _mm256_set1_ps(keep);
  for (size_t i = 0; i < blocks * kKernelBlock; i += kLanes)
    _mm256_storeu_ps(master + i, step(sum + i, divisor_8, keep_8, master + i));
}

// Takes the step at elements `i` to `i + 15`, where `change` gets by how much the master then
// differs from what the workers hold; `maxima` follows the largest such magnitudes.
PACELINE_INLINE void step_and_subtract(const ClosingBlocks& closing, size_t i, float* change,
                                       __m256i maxima[2]) {
  fetch_ahead(closing, i);
  for (size_t k = 0; k < 2; ++k, i += kLanes, change += kLanes) {
    const __m256 master = step(closing.sum + i, _mm256_set1_ps(closing.divisor),
                               _mm256_set1_ps(closing.keep), closing.master + i);
    _mm256_storeu_ps(closing.master + i, master);
    const __m256 value = _mm256_sub_ps(master, _mm256_loadu_ps(closing.published + i));
    _mm256_storeu_ps(change, value);
    maxima[k] = _mm256_max_epi32(maxima[k], _mm256_castps_si256(magnitude(value)));
  }
}

bool close(const ClosingBlocks& given, float* difference) {
  const ClosingBlocks closing = given;  // no store can change a copy, so it stays in registers
  __m256i maxima[2] = {};
  for (size_t i = 0; i < closing.blocks * kKernelBlock; i += 2 * kLanes) {
    step_and_subtract(closing, i, difference + i, maxima);
    for (size_t at = i; at < i + 2 * kLanes; at += kLanes)
      _mm256_storeu_ps(closing.next + at, _mm256_loadu_ps(closing.published + at));
  }
  return max_lane(_mm256_max_epi32(maxima[0], maxima[1])) < kRangeBits;
}

// Codes of 32 changes, and the next published values.
PACELINE_INLINE void publish_q8_32(const float* change, __m256 scale, __m256 inverse,
                                   const float* published, float* next, unsigned char* codes) {
  __m256i q[4];
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k) {
    const size_t i = k * kLanes;
    q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(change + i), inverse));
    _mm256_storeu_ps(next + i, flush(_mm256_fmadd_ps(_mm256_cvtepi32_ps(q[k]), scale,
                                                     _mm256_loadu_ps(published + i))));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), pack_32(q));
}

bool close_q8(const ClosingBlocks& given, unsigned char* scales, unsigned char* codes) {
  const ClosingBlocks closing = given;
  for (size_t block = 0; block < closing.blocks; ++block) {
    const size_t first = block * kKernelBlock;
    alignas(32) float c[kKernelBlock];
    __m256i maxima[2] = {};
    for (size_t i = 0; i < kKernelBlock; i += 2 * kLanes)
      step_and_subtract(closing, first + i, c + i, maxima);
    const uint32_t absmax = max_lane(_mm256_max_epi32(maxima[0], maxima[1]));
    if (absmax >= kRangeBits) return false;
    // A zero block has the scale 0, and with an inverse of 0 nothing but zeros.
    const uint32_t scale_bits = absmax < kZeroBlockBits ? 0 : q8_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m256 scale_8 = _mm256_set1_ps(scale);
    const __m256 inverse_8 = _mm256_set1_ps(scale_bits == 0 ? 0.0f : 1.0f / scale);
    for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes)
      publish_q8_32(c + i, scale_8, inverse_8, closing.published + first + i,
                    closing.next + first + i, codes + first + i);
  }
  return true;
}

}  // namespace

}  // namespace paceline
