// Kernels for x86 with AVX-512 F, BW, DQ and VL.
//
// A block is 16 registers of sixteen floats, half of what there is, so an encoder reads it once and
// holds it. Blocks are whole, so no loop has a tail. Fused multiply-adds stand only where the
// product is exact: a code times a scale, or a scale times a weight.
#include "platforms/x86/block_avx512.h"
#include "platforms/x86/close_avx512.h"
#include "platforms/x86/hadamard_avx512.h"
#include "platforms/x86/q4_avx512.h"
#include "platforms/x86/sparse_avx512.h"

namespace paceline {

namespace {

// The sign bits of 64 values. As one word, because what is stored in pieces and loaded whole has to
// wait for the cache.
PACELINE_INLINE uint64_t sign_word(const __m512 v[4]) {
  uint64_t word = 0;
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k)
    word |= static_cast<uint64_t>(_mm512_movepi32_mask(_mm512_castps_si512(v[k]))) << (16 * k);
  return word;
}

template <bool kTwo>
static bool all_in_range(const float* a, const float* b, size_t blocks) {
  __m512i absmax[4] = {};
  for (size_t v = 0; v < blocks * kVectors; v += 4)
    for (size_t k = 0; k < 4; ++k)
      absmax[k] =
          _mm512_max_epu32(absmax[k], _mm512_castps_si512(magnitude(load_sum<kTwo>(a, b, v + k))));
  return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(absmax[0], absmax[1]),
                                                  _mm512_max_epu32(absmax[2], absmax[3]))) <
         kRangeBits;
}

bool sums_in_range(const float* a, const float* b, size_t blocks) {
  return b != nullptr ? all_in_range<true>(a, b, blocks) : all_in_range<false>(a, nullptr, blocks);
}

// Codes and residual of 64 elements. cvtps rounds half to even, and |c * inverse| hardly passes
// 127.
template <bool kFeedback>
PACELINE_INLINE void encode_q8_64(const __m512 c[4], __m512 scale, __m512 inverse, float* residual,
                                  unsigned char* codes) {
  __m512i q[4];
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k) {
    q[k] = _mm512_cvtps_epi32(_mm512_mul_ps(c[k], inverse));
    if (kFeedback)
      _mm512_storeu_ps(residual + k * kLanes,
                       _mm512_fnmadd_ps(_mm512_cvtepi32_ps(q[k]), scale, c[k]));
  }
  _mm512_storeu_si512(codes, pack_64(q));
}

// One block, of which c is there and the largest magnitude known.
template <bool kFeedback>
PACELINE_INLINE void encode_q8_block(const __m512 c[kVectors], uint32_t absmax, const float* update,
                                     float* residual, unsigned char* scales, size_t block,
                                     unsigned char* codes) {
  if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
    skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kKernelBlock);
    return;
  }
  const uint32_t scale_bits = q8_scale(absmax);
  store_bf16(scales, block, scale_bits);
  const float scale = bf16_to_float(scale_bits);
  const __m512 scale_16 = _mm512_set1_ps(scale);
  const __m512 inverse_16 = _mm512_set1_ps(1.0f / scale);
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; v += 4)
    encode_q8_64<kFeedback>(c + v, scale_16, inverse_16,
                            kFeedback ? residual + v * kLanes : nullptr, codes + v * kLanes);
  if (kFeedback && scale_bits < kSmallScale) flush_block(residual);
}

static void encode_q8_feedback(const float* update, float* residual, size_t blocks,
                               unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block) {
    __m512 c[kVectors];
    const uint32_t absmax = gather<true>(update, residual, c);
    encode_q8_block<true>(c, absmax, update, residual, scales, block, codes);
    update += kKernelBlock;
    residual += kKernelBlock;
    codes += kKernelBlock;
  }
}

// Looks a block ahead: the way from the largest magnitude to the scale's inverse is long, and
// nothing else would be done on it.
static void encode_q8_update(const float* update, size_t blocks, unsigned char* scales,
                             unsigned char* codes) {
  __m512 c[kVectors];
  uint32_t absmax = blocks > 0 ? gather<false>(update, nullptr, c) : 0;
  for (size_t block = 0; block < blocks; ++block) {
    const float* next = update + kKernelBlock;
    const uint32_t absmax_next = block + 1 < blocks ? gather<false>(next, nullptr, c) : 0;
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) c[v] = _mm512_loadu_ps(update + v * kLanes);
    encode_q8_block<false>(c, absmax, update, nullptr, scales, block, codes);
    update = next;
    codes += kKernelBlock;
    absmax = absmax_next;
  }
}

void encode_q8(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  if (residual != nullptr)
    encode_q8_feedback(update, residual, blocks, scales, codes);
  else
    encode_q8_update(update, blocks, scales, codes);
}

template <bool kFeedback>
static void encode_s1_blocks(const float* update, float* residual, size_t blocks,
                             unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), codes += kKernelBlock / 8) {
    __m512 c[kVectors];
    __m512 lanes = _mm512_setzero_ps();
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      const __m512 value = load_sum<kFeedback>(update, residual, v);
      const __m512 size = magnitude(value);
      const __mmask16 keep = not_small(size, kFlushBits);
      c[v] = _mm512_maskz_mov_ps(keep, value);
      lanes = _mm512_mask_add_ps(lanes, keep, lanes, size);
    }
    uint64_t words[kVectors / 4];
    for (size_t k = 0; k < kVectors / 4; ++k) words[k] = sign_word(c + 4 * k);
    memcpy(codes, words, sizeof words);
    const float mean = fold(lanes) * (1.0f / 256.0f);
    if (mean_is_extreme(mean) &&
        skip_extreme_block(mean, update, residual, scales, block, codes, kKernelBlock / 8)) {
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    if (!kFeedback) continue;
    const __m512i scale = _mm512_set1_epi32(static_cast<int>(scale_bits << 16));
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(kSignBit));
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      // (c & sign) | scale
      const __m512i decoded =
          _mm512_ternarylogic_epi32(_mm512_castps_si512(c[v]), sign, scale, 0xEA);
      _mm512_storeu_ps(residual + v * kLanes, _mm512_sub_ps(c[v], _mm512_castsi512_ps(decoded)));
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

template <bool kFeedback>
static void encode_s1r_blocks(const float* update, float* residual, const uint64_t* signs,
                              size_t blocks, unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64,
              codes += kKernelBlock / 8) {
    alignas(64) float c[kKernelBlock];
    __m512 y[kVectors];
    gather_rotated<kFeedback>(update, residual, signs, c, y);
    // The factor 1/16 is exact, so it may wait until here.
    __m512 lanes = _mm512_setzero_ps();
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v) {
      lanes = _mm512_fmadd_ps(magnitude(y[v]), _mm512_set1_ps(0.0625f), lanes);
    }
    uint64_t words[kVectors / 4];
    for (size_t k = 0; k < kVectors / 4; ++k) words[k] = sign_word(y + 4 * k);
    memcpy(codes, words, sizeof words);
    const float mean = fold(lanes) * (1.0f / 256.0f);
    if (mean_is_extreme(mean) &&
        skip_extreme_block(mean, update, residual, scales, block, codes, kKernelBlock / 8)) {
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    if (!kFeedback) continue;
    const __m512 factor = _mm512_set1_ps(bf16_to_float(scale_bits) * 0.0625f);
    for_transformed_signs(words, signs, [&](size_t v, __m512 whole) {
      const __m512 value = _mm512_load_ps(c + v * kLanes);
      _mm512_storeu_ps(residual + v * kLanes, _mm512_fnmadd_ps(whole, factor, value));
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

PACELINE_INLINE __m512 load_codes(const unsigned char* codes) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

void add_q8(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock, into += kKernelBlock) {
    const __m512 scale = _mm512_set1_ps(bf16_to_float(load_bf16(scales, block)));
    PACELINE_UNROLL
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      _mm512_storeu_ps(into + i, flush(_mm512_fmadd_ps(load_codes(codes + i), scale,
                                                       _mm512_loadu_ps(into + i))));
  }
}

// Of a block with this scale; kSmall: one that may leave something small.
template <bool kSmall>
PACELINE_INLINE void add_signs(const unsigned char* codes, __m512 scale, float* into) {
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) {
    float* to = into + v * kLanes;
    const __m512 sum = _mm512_add_ps(_mm512_loadu_ps(to), negate(scale, sign_bits(codes, v)));
    _mm512_storeu_ps(to, kSmall ? flush(sum) : sum);
  }
}

void add_s1(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock / 8, into += kKernelBlock) {
    const uint32_t scale_bits = load_bf16(scales, block);
    const __m512 scale = _mm512_set1_ps(bf16_to_float(scale_bits));
    if (scale_bits < kSmallScale)
      add_signs<true>(codes, scale, into);
    else
      add_signs<false>(codes, scale, into);
  }
}

void add_s1r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kKernelBlock / 8, into += kKernelBlock) {
    const __m512 factor = _mm512_set1_ps(bf16_to_float(load_bf16(scales, block)) * 0.0625f);
    uint64_t words[kVectors / 4];
    memcpy(words, codes, sizeof words);
    for_transformed_signs(words, signs, [&](size_t v, __m512 whole) {
      float* to = into + v * kLanes;
      _mm512_storeu_ps(to, flush(_mm512_fmadd_ps(whole, factor, _mm512_loadu_ps(to))));
    });
  }
}

void sum_q8(const BlockTerm* terms, size_t count, float* acc) {
  __m512 sums[kVectors];
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) sums[v] = _mm512_loadu_ps(acc + v * kLanes);
  for (size_t t = 0; t < count; ++t) {
    const __m512 weight = _mm512_set1_ps(terms[t].weight);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      sums[v] = _mm512_fmadd_ps(load_codes(terms[t].codes + v * kLanes), weight, sums[v]);
  }
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(acc + v * kLanes, sums[v]);
}

void sum_s1(const BlockTerm* terms, size_t count, float* acc) {
  __m512 sums[kVectors];
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) sums[v] = _mm512_loadu_ps(acc + v * kLanes);
  for (size_t t = 0; t < count; ++t) {
    const __m512 weight = _mm512_set1_ps(terms[t].weight);
    PACELINE_UNROLL
    for (size_t v = 0; v < kVectors; ++v)
      sums[v] = _mm512_add_ps(sums[v], negate(weight, sign_bits(terms[t].codes, v)));
  }
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) _mm512_storeu_ps(acc + v * kLanes, sums[v]);
}

void unrotate_add(float* rotated, const uint64_t* signs, float* into) {
  __m512 h[kVectors];
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) h[v] = _mm512_loadu_ps(rotated + v * kLanes);
  hadamard(h);
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) {
    float* to = into + v * kLanes;
    const __m512 value = negate(_mm512_mul_ps(h[v], _mm512_set1_ps(0.0625f)), sign_bits(signs, v));
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), value));
  }
}

#undef PACELINE_UNROLL
#undef PACELINE_INLINE

}  // namespace

extern const KernelSet kernel_set_avx512;
constinit const KernelSet kernel_set_avx512 = {
    .name = "avx512",
    .cpu_features = kCpuAvx512,
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
