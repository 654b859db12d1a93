// Q4 and Q4R in 512-bit registers. A rotated block's codes are whole numbers of at most 7, so their
// transform is one of whole numbers of at most 1792: exact in float32, before the one scale.
#pragma once

#include "platforms/x86/block_avx512.h"
#include "platforms/x86/hadamard_avx512.h"

namespace paceline {

namespace {

constexpr size_t kQ4CodeBytes = kKernelBlock / 2;

// Codes of 64 values, which stay behind as floats: a scale's multiples.
PACELINE_INLINE void store_q4_64(__m512 values[4], __m512 inverse, unsigned char* codes) {
  __m512i q[4];
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k) {
    q[k] = _mm512_cvtps_epi32(_mm512_mul_ps(values[k], inverse));
    values[k] = _mm512_cvtepi32_ps(q[k]);
  }
  // Two bytes -> one: the first one's half below, the second one's above.
  const __m512i bytes = pack_64(q);
  const __m512i low = _mm512_and_si512(bytes, _mm512_set1_epi16(0x000F));
  const __m512i high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi16(0x00F0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes),
                      _mm512_cvtepi16_epi8(_mm512_or_si512(low, high)));
}

// Sixteen codes as floats.
PACELINE_INLINE __m512 load_q4(const unsigned char* codes) {
  const __m512i bytes =
      _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m512i index = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
  return _mm512_permutexvar_ps(index, table);
}

template <bool kFeedback>
static void encode_q4_blocks(const float* update, float* residual, size_t blocks,
                             unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kQ4CodeBytes) {
    __m512 c[kVectors];
    const uint32_t absmax = gather<kFeedback>(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kQ4CodeBytes);
      continue;
    }
    const uint32_t scale_bits = q4_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m512 inverse = _mm512_set1_ps(1.0f / scale);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; v += 4) {
      __m512 q[4] = {c[v], c[v + 1], c[v + 2], c[v + 3]};
      store_q4_64(q, inverse, codes + v * kLanes / 2);
      if (kFeedback)
        for (size_t k = 0; k < 4; ++k)
          _mm512_storeu_ps(residual + (v + k) * kLanes,
                           _mm512_fnmadd_ps(q[k], _mm512_set1_ps(scale), c[v + k]));
    }
    if (kFeedback && scale_bits < kSmallScale) flush_block(residual);
  }
}

void encode_q4(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  if (residual != nullptr)
    encode_q4_blocks<true>(update, residual, blocks, scales, codes);
  else
    encode_q4_blocks<false>(update, nullptr, blocks, scales, codes);
}

template <bool kFeedback>
static void encode_q4r_blocks(const float* update, float* residual, const uint64_t* signs,
                              size_t blocks, unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64, codes += kQ4CodeBytes) {
    alignas(64) float c[kKernelBlock];
    __m512 y[kVectors];
    gather_rotated<kFeedback>(update, residual, signs, c, y);
    __m512i absmax = _mm512_setzero_si512();
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      y[v] = _mm512_mul_ps(y[v], _mm512_set1_ps(0.0625f));
      absmax = _mm512_max_epu32(absmax, _mm512_castps_si512(magnitude(y[v])));
    }
    const uint32_t rotated_max = _mm512_reduce_max_epu32(absmax);
    // The largest magnitude is above the mean, so what says much of a mean says as much of it.
    if (mean_is_extreme(float_of(rotated_max)) &&
        skip_extreme_block(float_of(rotated_max), update, residual, scales, block, codes,
                           kQ4CodeBytes))
      continue;
    const uint32_t scale_bits = q4_scale(rotated_max);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m512 inverse = _mm512_set1_ps(1.0f / scale);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; v += 4) store_q4_64(y + v, inverse, codes + v * kLanes / 2);
    if (!kFeedback) continue;
    hadamard(y);
    const __m512 factor = _mm512_set1_ps(scale * 0.0625f);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      _mm512_storeu_ps(residual + v * kLanes,
                       _mm512_fnmadd_ps(y[v], negate(factor, sign_bits(signs, v)),
                                        _mm512_load_ps(c + v * kLanes)));
    if (scale_bits < kSmallScale) flush_block(residual);
  }
}

void encode_q4r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  if (residual != nullptr)
    encode_q4r_blocks<true>(update, residual, signs, blocks, scales, codes);
  else
    encode_q4r_blocks<false>(update, nullptr, signs, blocks, scales, codes);
}

void add_q4(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kQ4CodeBytes, into += kKernelBlock) {
    const __m512 scale = _mm512_set1_ps(bf16_to_float(load_bf16(scales, block)));
    PACELINE_UNROLL
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      _mm512_storeu_ps(into + i, flush(_mm512_fmadd_ps(load_q4(codes + i / 2), scale,
                                                       _mm512_loadu_ps(into + i))));
  }
}

void add_q4r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kQ4CodeBytes, into += kKernelBlock) {
    __m512 h[kVectors];
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) h[v] = load_q4(codes + v * kLanes / 2);
    hadamard(h);
    const __m512 factor = _mm512_set1_ps(bf16_to_float(load_bf16(scales, block)) * 0.0625f);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      float* to = into + v * kLanes;
      _mm512_storeu_ps(to, flush(_mm512_fmadd_ps(h[v], negate(factor, sign_bits(signs, v)),
                                                 _mm512_loadu_ps(to))));
    }
  }
}

void sum_q4(const BlockTerm* terms, size_t count, float* acc) {
  __m512 sums[kVectors];
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) sums[v] = _mm512_loadu_ps(acc + v * kLanes);
  for (size_t t = 0; t < count; ++t) {
    const __m512 weight = _mm512_set1_ps(terms[t].weight);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      sums[v] = _mm512_fmadd_ps(load_q4(terms[t].codes + v * kLanes / 2), weight, sums[v]);
  }
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(acc + v * kLanes, sums[v]);
}

}  // namespace

}  // namespace paceline
