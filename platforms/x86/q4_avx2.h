// Q4 and Q4R in 256-bit registers. A rotated block's codes are whole numbers of at most 7, so their
// transform is one of whole numbers of at most 1792: exact in float32, before the one scale.
#pragma once

#include "platforms/x86/block_avx2.h"
#include "platforms/x86/hadamard_avx2.h"

namespace paceline {

namespace {

constexpr size_t kQ4CodeBytes = kKernelBlock / 2;

// Codes of 64 values, and the values as multiples of the scale; `whole` may be `values`.
PACELINE_INLINE void store_q4_64(const float* values, __m256 inverse, unsigned char* codes,
                                 float* whole) {
  __m256i pairs[2];
  for (size_t half = 0; half < 2; ++half) {
    __m256i q[4];
    for (size_t k = 0; k < 4; ++k) {
      const size_t at = (4 * half + k) * kLanes;
      q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(values + at), inverse));
      if (whole != nullptr) _mm256_store_ps(whole + at, _mm256_cvtepi32_ps(q[k]));
    }
    // Two bytes -> one: the first one's half below, the second one's above.
    const __m256i bytes = pack_32(q);
    pairs[half] =
        _mm256_or_si256(_mm256_and_si256(bytes, _mm256_set1_epi16(0x000F)),
                        _mm256_and_si256(_mm256_srli_epi16(bytes, 4), _mm256_set1_epi16(0x00F0)));
  }
  const __m256i packed = _mm256_packus_epi16(pairs[0], pairs[1]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), _mm256_permute4x64_epi64(packed, 0xD8));
}

// Eight codes as floats.
PACELINE_INLINE __m256 load_q4(const unsigned char* codes) {
  uint32_t word;
  memcpy(&word, codes, sizeof word);
  const __m256i shifts = _mm256_setr_epi32(28, 24, 20, 16, 12, 8, 4, 0);
  const __m256i high = _mm256_sllv_epi32(_mm256_set1_epi32(static_cast<int>(word)), shifts);
  return _mm256_cvtepi32_ps(_mm256_srai_epi32(high, 28));
}

template <bool kFeedback>
static void encode_q4_blocks(const float* update, float* residual, size_t blocks,
                             unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kQ4CodeBytes) {
    alignas(32) float c[kKernelBlock];
    const uint32_t absmax = gather<kFeedback>(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kQ4CodeBytes);
      continue;
    }
    const uint32_t scale_bits = q4_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m256 scale_8 = _mm256_set1_ps(scale);
    const __m256 inverse_8 = _mm256_set1_ps(1.0f / scale);
    const float* from = kFeedback ? c : update;
    for (size_t i = 0; i < kKernelBlock; i += 8 * kLanes) {
      alignas(32) float whole[8 * kLanes];
      store_q4_64(from + i, inverse_8, codes + i / 2, kFeedback ? whole : nullptr);
      if (kFeedback)
        for (size_t j = 0; j < 8 * kLanes; j += kLanes)
          _mm256_storeu_ps(residual + i + j, _mm256_fnmadd_ps(_mm256_load_ps(whole + j), scale_8,
                                                              _mm256_load_ps(c + i + j)));
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
    alignas(32) float c[kKernelBlock];
    alignas(32) float h[kKernelBlock];
    alignas(32) float y[kKernelBlock];
    gather_rotated<kFeedback>(update, residual, signs, c, h);
    __m256i maxima = _mm256_setzero_si256();
    transform_tops(h, [&](size_t v, __m256 top) {
      const __m256 value = _mm256_mul_ps(top, _mm256_set1_ps(0.0625f));
      maxima = _mm256_max_epi32(maxima, _mm256_castps_si256(magnitude(value)));
      _mm256_store_ps(y + v * kLanes, value);
    });
    const uint32_t rotated_max = max_lane(maxima);
    // The largest magnitude is above the mean, so what says much of a mean says as much of it.
    if (mean_is_extreme(float_of(rotated_max)) &&
        skip_extreme_block(float_of(rotated_max), update, residual, scales, block, codes,
                           kQ4CodeBytes))
      continue;
    const uint32_t scale_bits = q4_scale(rotated_max);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m256 inverse_8 = _mm256_set1_ps(1.0f / scale);
    for (size_t i = 0; i < kKernelBlock; i += 8 * kLanes)
      store_q4_64(y + i, inverse_8, codes + i / 2, kFeedback ? y + i : nullptr);
    if (!kFeedback) continue;
    transform_groups([&](size_t v) { return _mm256_load_ps(y + v * kLanes); }, h);
    const __m256 factor = _mm256_set1_ps(scale * 0.0625f);
    transform_tops(h, [&](size_t v, __m256 top) {
      const __m256 value = _mm256_load_ps(c + v * kLanes);
      const __m256 signed_factor = _mm256_xor_ps(factor, sign_mask(signs, v));
      _mm256_storeu_ps(residual + v * kLanes, _mm256_fnmadd_ps(top, signed_factor, value));
    });
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
    const __m256 scale = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)));
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      _mm256_storeu_ps(into + i, flush(_mm256_fmadd_ps(load_q4(codes + i / 2), scale,
                                                       _mm256_loadu_ps(into + i))));
  }
}

void add_q4r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kQ4CodeBytes, into += kKernelBlock) {
    alignas(32) float h[kKernelBlock];
    transform_groups([&](size_t v) { return load_q4(codes + v * kLanes / 2); }, h);
    const __m256 factor = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)) * 0.0625f);
    transform_tops(h, [&](size_t v, __m256 top) {
      float* to = into + v * kLanes;
      const __m256 signed_factor = _mm256_xor_ps(factor, sign_mask(signs, v));
      _mm256_storeu_ps(to, flush(_mm256_fmadd_ps(top, signed_factor, _mm256_loadu_ps(to))));
    });
  }
}

void sum_q4(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += 8 * kLanes) {
    __m256 sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_loadu_ps(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const __m256 weight = _mm256_set1_ps(terms[t].weight);
      const unsigned char* codes = terms[t].codes + slice / 2;
      for (size_t k = 0; k < 8; ++k)
        sums[k] = _mm256_fmadd_ps(load_q4(codes + k * kLanes / 2), weight, sums[k]);
    }
    for (size_t k = 0; k < 8; ++k) _mm256_storeu_ps(acc + slice + k * kLanes, sums[k]);
  }
}

}  // namespace

}  // namespace paceline
