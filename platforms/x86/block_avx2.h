// What the kernels with 256-bit registers share: a block is 32 registers of eight floats.
#pragma once

#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

#define PACELINE_INLINE static inline __attribute__((always_inline))
#define PACELINE_UNROLL _Pragma("GCC unroll 16")

constexpr size_t kLanes = 8;
constexpr size_t kVectors = kKernelBlock / kLanes;

PACELINE_INLINE __m256 magnitude(__m256 v) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(kMagnitudeBits)));
}

// All ones where a magnitude is at least `least`.
PACELINE_INLINE __m256 not_small(__m256 magnitudes, uint32_t least) {
  return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_castps_si256(magnitudes),
                                                _mm256_set1_epi32(static_cast<int>(least) - 1)));
}

PACELINE_INLINE __m256 flush(__m256 v) {
  return _mm256_and_ps(v, not_small(magnitude(v), kFlushBits));
}

static void flush_block(float* values) {
  for (size_t i = 0; i < kKernelBlock; i += kLanes)
    _mm256_storeu_ps(values + i, flush(_mm256_loadu_ps(values + i)));
}

PACELINE_INLINE uint32_t max_lane(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// The sixteen lanes of a mean, folded 16 -> 8 -> 4 -> 2 -> 1.
PACELINE_INLINE float fold(const __m256 lanes[2]) {
  const __m256 eight = _mm256_add_ps(lanes[0], lanes[1]);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Vector v of update + residual; kFeedback: there is a residual.
template <bool kFeedback>
PACELINE_INLINE __m256 load_sum(const float* update, const float* residual, size_t v) {
  const __m256 value = _mm256_loadu_ps(update + v * kLanes);
  return kFeedback ? _mm256_add_ps(value, _mm256_loadu_ps(residual + v * kLanes)) : value;
}

// c = flush(update + residual) to memory; returns the bits of the largest |c|. Without a residual c
// is the update itself: what is small has the code 0 either way.
template <bool kFeedback>
PACELINE_INLINE uint32_t gather(const float* update, const float* residual, float* c) {
  __m256i maxima[4] = {};
  for (size_t v = 0; v < kVectors; v += 4)
    for (size_t k = 0; k < 4; ++k) {
      const __m256 value = load_sum<kFeedback>(update, residual, v + k);
      const __m256 size = magnitude(value);
      maxima[k] = _mm256_max_epi32(maxima[k], _mm256_castps_si256(size));
      if (kFeedback)
        _mm256_store_ps(c + (v + k) * kLanes, _mm256_and_ps(value, not_small(size, kFlushBits)));
    }
  return max_lane(_mm256_max_epi32(_mm256_max_epi32(maxima[0], maxima[1]),
                                   _mm256_max_epi32(maxima[2], maxima[3])));
}

// 32 small integers as int8.
PACELINE_INLINE __m256i pack_32(const __m256i q[4]) {
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  // The packs work in 128-bit halves; this puts the groups of four back in order.
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

}  // namespace

}  // namespace paceline
