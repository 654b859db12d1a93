// Kernels for x86 with AVX2 and FMA.
//
// A block is 32 registers of eight floats, more than there are, so each encoder makes two trips:
// the first leaves c (or y) in a buffer that stays in the first-level cache, the second writes the
// residual. Blocks are whole, so no loop has a tail. Fused multiply-adds stand only where the
// product is exact: a code times a scale, or a scale times a weight.
#include "platforms/x86/block_avx2.h"
#include "platforms/x86/close_avx2.h"
#include "platforms/x86/hadamard_avx2.h"
#include "platforms/x86/q4_avx2.h"
#include "platforms/x86/sparse_avx2.h"

namespace paceline {

namespace {

PACELINE_INLINE void store_signs(unsigned char* codes, size_t v, __m256 values) {
  codes[v] = static_cast<unsigned char>(_mm256_movemask_ps(values));
}

template <bool kTwo>
static bool all_in_range(const float* a, const float* b, size_t blocks) {
  __m256i absmax[4] = {};
  for (size_t v = 0; v < blocks * kVectors; v += 4)
    for (size_t k = 0; k < 4; ++k)
      absmax[k] =
          _mm256_max_epi32(absmax[k], _mm256_castps_si256(magnitude(load_sum<kTwo>(a, b, v + k))));
  return max_lane(_mm256_max_epi32(_mm256_max_epi32(absmax[0], absmax[1]),
                                   _mm256_max_epi32(absmax[2], absmax[3]))) < kRangeBits;
}

bool sums_in_range(const float* a, const float* b, size_t blocks) {
  return b != nullptr ? all_in_range<true>(a, b, blocks) : all_in_range<false>(a, nullptr, blocks);
}

// Codes and residual of 32 elements. cvtps rounds half to even, and |c * inverse| hardly passes
// 127.
template <bool kFeedback>
PACELINE_INLINE void encode_q8_32(const float* c, __m256 scale, __m256 inverse, float* residual,
                                  unsigned char* codes) {
  __m256i q[4];
  for (size_t k = 0; k < 4; ++k) {
    const __m256 value = _mm256_loadu_ps(c + k * kLanes);
    q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(value, inverse));
    if (kFeedback)
      _mm256_storeu_ps(residual + k * kLanes,
                       _mm256_fnmadd_ps(_mm256_cvtepi32_ps(q[k]), scale, value));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), pack_32(q));
}

// Gathers a block ahead: the way from the largest magnitude to the scale's inverse is long, and
// nothing else would be done on it.
template <bool kFeedback>
static void encode_q8_blocks(const float* update, float* residual, size_t blocks,
                             unsigned char* scales, unsigned char* codes) {
  alignas(32) float buffers[2][kKernelBlock];
  uint32_t absmax = blocks > 0 ? gather<kFeedback>(update, residual, buffers[0]) : 0;
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock) {
    const float* c = kFeedback ? buffers[block % 2] : update;
    const float* update_next = update + kKernelBlock;
    float* residual_next = next_block(residual);
    uint32_t absmax_next = 0;
    if (block + 1 < blocks)
      absmax_next = gather<kFeedback>(update_next, residual_next, buffers[(block + 1) % 2]);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kKernelBlock);
    } else {
      const uint32_t scale_bits = q8_scale(absmax);
      store_bf16(scales, block, scale_bits);
      const float scale = bf16_to_float(scale_bits);
      const __m256 scale_8 = _mm256_set1_ps(scale);
      const __m256 inverse_8 = _mm256_set1_ps(1.0f / scale);
      for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes)
        encode_q8_32<kFeedback>(c + i, scale_8, inverse_8, kFeedback ? residual + i : nullptr,
                                codes + i);
      if (kFeedback && scale_bits < kSmallScale) flush_block(residual);
    }
    update = update_next;
    residual = residual_next;
    absmax = absmax_next;
  }
}

void encode_q8(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  if (residual != nullptr)
    encode_q8_blocks<true>(update, residual, blocks, scales, codes);
  else
    encode_q8_blocks<false>(update, nullptr, blocks, scales, codes);
}

template <bool kFeedback>
static void encode_s1_blocks(const float* update, float* residual, size_t blocks,
                             unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kVectors) {
    alignas(32) float c[kKernelBlock];
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t v = 0; v < kVectors; v += 2)
      for (size_t k = 0; k < 2; ++k) {
        const __m256 value = load_sum<kFeedback>(update, residual, v + k);
        const __m256 size = magnitude(value);
        const __m256 keep = not_small(size, kFlushBits);
        const __m256 kept = _mm256_and_ps(value, keep);
        if (kFeedback) _mm256_store_ps(c + (v + k) * kLanes, kept);
        lanes[k] = _mm256_add_ps(lanes[k], _mm256_and_ps(size, keep));
        store_signs(codes, v + k, kept);
      }
    const float mean = fold(lanes) * (1.0f / 256.0f);
    if (mean_is_extreme(mean) &&
        skip_extreme_block(mean, update, residual, scales, block, codes, kVectors)) {
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    if (!kFeedback) continue;
    const __m256 scale = _mm256_set1_ps(bf16_to_float(scale_bits));
    for (size_t i = 0; i < kKernelBlock; i += kLanes) {
      const __m256 value = _mm256_load_ps(c + i);
      const __m256 sign = _mm256_and_ps(value, _mm256_set1_ps(-0.0f));
      _mm256_storeu_ps(residual + i, _mm256_sub_ps(value, _mm256_or_ps(scale, sign)));
    }
    if (scale_bits < kSmallScale) flush_block(residual);
  }
}

void encode_s1(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  if (residual != nullptr)
    encode_s1_blocks<true>(update, residual, blocks, scales, codes);
  else
    encode_s1_blocks<false>(update, nullptr, blocks, scales, codes);
}

// Finishes y, packs its signs and returns its mean magnitude. Lanes 0 to 7 of the mean are the even
// registers and lanes 8 to 15 the odd ones, each added in order.
PACELINE_INLINE float finish_rotated(const float* y, unsigned char* codes) {
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t odd = 0; odd < 2; ++odd) {
    __m256 top[4][4];
    for (size_t j = 0; j < 4; ++j) hadamard_top(y, 2 * j + odd, top[j]);
    for (size_t k = 0; k < 4; ++k)
      for (size_t j = 0; j < 4; ++j) {
        // The factor 1/16 is exact, so it may wait until here.
        lanes[odd] = _mm256_fmadd_ps(magnitude(top[j][k]), _mm256_set1_ps(0.0625f), lanes[odd]);
        store_signs(codes, 8 * k + 2 * j + odd, top[j][k]);
      }
  }
  return fold(lanes) * (1.0f / 256.0f);
}

template <bool kFeedback>
static void encode_s1r_blocks(const float* update, float* residual, const uint64_t* signs,
                              size_t blocks, unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64, codes += kVectors) {
    alignas(32) float c[kKernelBlock];
    alignas(32) float y[kKernelBlock];
    gather_rotated<kFeedback>(update, residual, signs, c, y);
    const float mean = finish_rotated(y, codes);
    if (mean_is_extreme(mean) &&
        skip_extreme_block(mean, update, residual, scales, block, codes, kVectors)) {
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    if (!kFeedback) continue;
    const __m256 factor = _mm256_set1_ps(bf16_to_float(scale_bits) * 0.0625f);
    for_transformed_signs(codes, [&](size_t v, __m256 whole) {
      const __m256 value = _mm256_load_ps(c + v * kLanes);
      const __m256 signed_factor = _mm256_xor_ps(factor, sign_mask(signs, v));
      _mm256_storeu_ps(residual + v * kLanes, _mm256_fnmadd_ps(whole, signed_factor, value));
    });
    if (scale_bits < kSmallScale) flush_block(residual);
  }
}

void encode_s1r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  if (residual != nullptr)
    encode_s1r_blocks<true>(update, residual, signs, blocks, scales, codes);
  else
    encode_s1r_blocks<false>(update, nullptr, signs, blocks, scales, codes);
}

PACELINE_INLINE __m256 load_codes(const unsigned char* codes) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

void add_q8(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock, into += kKernelBlock) {
    const __m256 scale = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)));
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      _mm256_storeu_ps(into + i, flush(_mm256_fmadd_ps(load_codes(codes + i), scale,
                                                       _mm256_loadu_ps(into + i))));
  }
}

// Of a block with this scale; kSmall: one that may leave something small. The bits are shifted into
// place, because a table would cost the third load of each vector.
template <bool kSmall>
PACELINE_INLINE void add_signs(const unsigned char* codes, __m256 scale, float* into) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256i first = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
  for (size_t v = 0; v < kVectors; v += 4, codes += 4) {
    uint32_t word;
    memcpy(&word, codes, sizeof word);
    const __m256i bits = _mm256_set1_epi32(static_cast<int>(word));
    PACELINE_UNROLL
    for (size_t k = 0; k < 4; ++k) {
      float* to = into + (v + k) * kLanes;
      const __m256i shifts = _mm256_sub_epi32(first, _mm256_set1_epi32(static_cast<int>(8 * k)));
      const __m256 shifted = _mm256_castsi256_ps(_mm256_sllv_epi32(bits, shifts));
      const __m256 decoded = _mm256_xor_ps(scale, _mm256_and_ps(shifted, sign));
      const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(to), decoded);
      _mm256_storeu_ps(to, kSmall ? flush(sum) : sum);
    }
  }
}

void add_s1(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kVectors, into += kKernelBlock) {
    const uint32_t scale_bits = load_bf16(scales, block);
    const __m256 scale = _mm256_set1_ps(bf16_to_float(scale_bits));
    if (scale_bits < kSmallScale)
      add_signs<true>(codes, scale, into);
    else
      add_signs<false>(codes, scale, into);
  }
}

void add_s1r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kVectors, into += kKernelBlock) {
    const __m256 factor = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)) * 0.0625f);
    for_transformed_signs(codes, [&](size_t v, __m256 whole) {
      float* to = into + v * kLanes;
      const __m256 signed_factor = _mm256_xor_ps(factor, sign_mask(signs, v));
      _mm256_storeu_ps(to, flush(_mm256_fmadd_ps(whole, signed_factor, _mm256_loadu_ps(to))));
    });
  }
}

void sum_q8(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += 8 * kLanes) {
    __m256 sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_loadu_ps(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const __m256 weight = _mm256_set1_ps(terms[t].weight);
      const unsigned char* codes = terms[t].codes + slice;
      for (size_t k = 0; k < 8; ++k)
        sums[k] = _mm256_fmadd_ps(load_codes(codes + k * kLanes), weight, sums[k]);
    }
    for (size_t k = 0; k < 8; ++k) _mm256_storeu_ps(acc + slice + k * kLanes, sums[k]);
  }
}

void sum_s1(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t group = 0; group < kVectors; group += 8) {
    __m256 sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_loadu_ps(acc + (group + k) * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const __m256 weight = _mm256_set1_ps(terms[t].weight);
      for (size_t k = 0; k < 8; ++k)
        sums[k] =
            _mm256_add_ps(sums[k], _mm256_xor_ps(weight, sign_mask(terms[t].codes, group + k)));
    }
    for (size_t k = 0; k < 8; ++k) _mm256_storeu_ps(acc + (group + k) * kLanes, sums[k]);
  }
}

void unrotate_add(float* rotated, const uint64_t* signs, float* into) {
  alignas(32) float h[kKernelBlock];
  transform_groups([&](size_t v) { return _mm256_loadu_ps(rotated + v * kLanes); }, h);
  transform_tops(h, [&](size_t v, __m256 top) {
    float* to = into + v * kLanes;
    const __m256 value = _mm256_mul_ps(top, _mm256_set1_ps(0.0625f));
    _mm256_storeu_ps(to,
                     _mm256_add_ps(_mm256_loadu_ps(to), _mm256_xor_ps(value, sign_mask(signs, v))));
  });
}

#undef PACELINE_UNROLL
#undef PACELINE_INLINE

}  // namespace

extern const KernelSet kernel_set_avx2;
constinit const KernelSet kernel_set_avx2 = {
    .name = "avx2",
    .cpu_features = kCpuAvx2,
    .sums_in_range = sums_in_range,
    .encode_q8 = encode_q8,
    .encode_s1 = encode_s1,
    .encode_s1r = encode_s1r,
    .add_q8 = add_q8,
    .add_s1 = add_s1,
    .add_s1r = add_s1r,
    .sum_q8 = sum_q8,
    .sum_s1 = sum_s1,
    .unrotate_add = unrotate_add,
    .subtract = subtract,
    .apply_mean = apply_mean,
    .close = close,
    .encode_q4 = encode_q4,
    .encode_q4r = encode_q4r,
    .add_q4 = add_q4,
    .add_q4r = add_q4r,
    .sum_q4 = sum_q4,
    .gather_maxima = gather_maxima,
    .find_large = find_large,
    .close_q8 = close_q8,
};

}  // namespace paceline
