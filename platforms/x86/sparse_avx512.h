// TK's two passes over a group in 512-bit registers.
#pragma once

#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

template <bool kFeedback>
static uint32_t gather_strips(const float* update, float* residual, size_t blocks, size_t strip,
                              uint32_t* maxima) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitudeBits);
  const __m512i flush = _mm512_set1_epi32(kFlushBits);
  __m256i absmax = _mm256_setzero_si256();
  for (size_t i = 0; i < blocks * kKernelBlock; i += 8 * strip, maxima += 8) {
    __m512i largest = _mm512_setzero_si512();
    for (size_t at = i; at < i + 8 * strip; at += 16) {
      if (!kFeedback) {
        const __m512i size = _mm512_and_si512(_mm512_loadu_si512(update + at), magnitude);
        largest = _mm512_max_epu32(largest, size);
        continue;
      }
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

uint32_t gather_maxima(const float* update, float* residual, size_t blocks, size_t strip,
                       uint32_t* maxima) {
  return residual != nullptr ? gather_strips<true>(update, residual, blocks, strip, maxima)
                             : gather_strips<false>(update, nullptr, blocks, strip, maxima);
}

size_t find_large(const float* values, size_t blocks, uint32_t least, uint16_t* positions) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitudeBits);
  const __m512i bound = _mm512_set1_epi32(static_cast<int>(least));
  size_t found = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; i += 64) {
    uint64_t word = 0;
    for (size_t k = 0; k < 4; ++k) {
      const __m512i size = _mm512_and_si512(_mm512_loadu_si512(values + i + 16 * k), magnitude);
      word |= static_cast<uint64_t>(_mm512_cmpge_epu32_mask(size, bound)) << (16 * k);
    }
    found += put_positions(word, i, positions + found);
  }
  return found;
}

}  // namespace

}  // namespace paceline
