// TK's two passes over a group in 256-bit registers.
#pragma once

#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

template <bool kFeedback>
static uint32_t gather_strips(const float* update, float* residual, size_t blocks, size_t strip,
                              uint32_t* maxima) {
  const __m256i magnitude = _mm256_set1_epi32(kMagnitudeBits);
  const __m256i small = _mm256_set1_epi32(kFlushBits - 1);
  __m256i absmax = _mm256_setzero_si256();
  for (size_t i = 0; i < blocks * kKernelBlock; i += 8 * strip, maxima += 8) {
    __m256i largest = _mm256_setzero_si256();
    for (size_t at = i; at < i + 8 * strip; at += 8) {
      if (!kFeedback) {
        const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(update + at));
        largest = _mm256_max_epi32(largest, _mm256_and_si256(c, magnitude));
        continue;
      }
      const __m256 c = _mm256_add_ps(_mm256_loadu_ps(update + at), _mm256_loadu_ps(residual + at));
      const __m256i size = _mm256_and_si256(_mm256_castps_si256(c), magnitude);
      const __m256i keep = _mm256_cmpgt_epi32(size, small);
      _mm256_storeu_ps(residual + at, _mm256_and_ps(c, _mm256_castsi256_ps(keep)));
      largest = _mm256_max_epi32(largest, _mm256_and_si256(size, keep));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(maxima), largest);
    absmax = _mm256_max_epi32(absmax, largest);
  }
  uint32_t lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), absmax);
  uint32_t most = 0;
  for (const uint32_t lane : lanes) most = lane > most ? lane : most;
  return most;
}

uint32_t gather_maxima(const float* update, float* residual, size_t blocks, size_t strip,
                       uint32_t* maxima) {
  return residual != nullptr ? gather_strips<true>(update, residual, blocks, strip, maxima)
                             : gather_strips<false>(update, nullptr, blocks, strip, maxima);
}

size_t find_large(const float* values, size_t blocks, uint32_t least, uint16_t* positions) {
  const __m256i magnitude = _mm256_set1_epi32(kMagnitudeBits);
  const __m256i below = _mm256_set1_epi32(static_cast<int>(least - 1));
  size_t found = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0; k < 8; ++k) {
      const __m256i size = _mm256_and_si256(
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + i + 8 * k)), magnitude);
      const __m256 large = _mm256_castsi256_ps(_mm256_cmpgt_epi32(size, below));
      word |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_ps(large))) << (8 * k);
    }
    found += put_positions(word, i, positions + found);
  }
  return found;
}

}  // namespace

}  // namespace paceline
