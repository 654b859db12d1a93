// What the kernels with 512-bit registers share: a block is 16 registers of sixteen floats.
#pragma once

#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

#define PACELINE_INLINE static inline __attribute__((always_inline))
#define PACELINE_UNROLL _Pragma("GCC unroll 16")

constexpr size_t kLanes = 16;
constexpr size_t kVectors = kKernelBlock / kLanes;

PACELINE_INLINE __m512 magnitude(__m512 v) {
  return _mm512_and_ps(v, _mm512_castsi512_ps(_mm512_set1_epi32(kMagnitudeBits)));
}

PACELINE_INLINE __mmask16 not_small(__m512 magnitudes, uint32_t least) {
  return _mm512_cmpge_epu32_mask(_mm512_castps_si512(magnitudes),
                                 _mm512_set1_epi32(static_cast<int>(least)));
}

PACELINE_INLINE __m512 flush(__m512 v) {
  return _mm512_maskz_mov_ps(not_small(magnitude(v), kFlushBits), v);
}

static void flush_block(float* values) {
  for (size_t i = 0; i < kKernelBlock; i += kLanes)
    _mm512_storeu_ps(values + i, flush(_mm512_loadu_ps(values + i)));
}

// The sixteen lanes of a mean, folded 16 -> 8 -> 4 -> 2 -> 1.
PACELINE_INLINE float fold(__m512 lanes) {
  const __m256 eight =
      _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Vector v of update + residual; kFeedback: there is a residual.
template <bool kFeedback>
PACELINE_INLINE __m512 load_sum(const float* update, const float* residual, size_t v) {
  const __m512 value = _mm512_loadu_ps(update + v * kLanes);
  return kFeedback ? _mm512_add_ps(value, _mm512_loadu_ps(residual + v * kLanes)) : value;
}

// c = flush(update + residual); returns the bits of the largest |c|. Without a residual c is the
// update itself: what is small has the code 0 either way.
template <bool kFeedback>
PACELINE_INLINE uint32_t gather(const float* update, const float* residual, __m512 c[kVectors]) {
  __m512i maxima[2] = {};
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) {
    const __m512 value = load_sum<kFeedback>(update, residual, v);
    const __m512 size = magnitude(value);
    maxima[v % 2] = _mm512_max_epu32(maxima[v % 2], _mm512_castps_si512(size));
    c[v] = kFeedback ? _mm512_maskz_mov_ps(not_small(size, kFlushBits), value) : value;
  }
  return _mm512_reduce_max_epu32(_mm512_max_epu32(maxima[0], maxima[1]));
}

// 64 small integers as int8.
PACELINE_INLINE __m512i pack_64(const __m512i q[4]) {
  const __m512i packed =
      _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
  // The packs work in 128-bit quarters; this puts the groups of four back in order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, packed);
}

}  // namespace

}  // namespace paceline
