// TK's two passes over a group in 512-bit registers.
#pragma once

#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

uint32_t gather_maxima(const float* update, float* residual, size_t blocks, size_t strip,
                       uint32_t* maxima) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitudeBits);
  const __m512i flush = _mm512_set1_epi32(kFlushBits);
  __m256i absmax = _mm256_setzero_si256();
  for (size_t i = 0; i < blocks * kKernelBlock; i += 8 * strip, maxima += 8) {
    __m512i largest = _mm512_setzero_si512();
    for (size_t at = i; at < i + 8 * strip; at += 16) {
      const __m512i c = _mm512_castps_si512(
          _mm512_add_ps(_mm512_loadu_ps(update + at), _mm512_loadu_ps(residual + at)));
      const __m512i size = _mm512_and_si512(c, magnitude);
      const __mmask16 keep = _mm512_cmpge_epu32_mask(size, flush);
      _mm512_storeu_si512(residual + at, _mm512_maskz_mov_epi32(keep, c));
      largest = _mm512_mask_max_epu32(largest, keep, largest, size);
    }
    const __m256i eight =
        _mm256_max_epu32(_mm512_castsi512_si256(largest), _mm512_extracti64x4_epi64(largest, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(maxima), eight);
    absmax = _mm256_max_epu32(absmax, eight);
  }
  return _mm512_reduce_max_epu32(_mm512_zextsi256_si512(absmax));
}

size_t find_large(const float* values, size_t blocks, uint32_t least, uint16_t* positions) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitudeBits);
  const __m512i bound = _mm512_set1_epi32(static_cast<int>(least));
  __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  size_t found = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; i += 16) {
    const __m512i size = _mm512_and_si512(_mm512_loadu_si512(values + i), magnitude);
    const __mmask16 large = _mm512_cmpge_epu32_mask(size, bound);
    // All sixteen are written; the next ones lie over those that are not large.
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions + found),
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(large, place)));
    found += static_cast<size_t>(__builtin_popcount(large));
    place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
  }
  return found;
}

}  // namespace

}  // namespace paceline
