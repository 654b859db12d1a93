// The Walsh-Hadamard transform of a block in 512-bit registers: 16 registers of sixteen floats.
//
// Every product here is exact (by 1, -1 or a power of two), so a fused multiply-add rounds once, as
// the addition of the specification does. What is transformed back is a scale times whole numbers
// of at most 256, so that direction runs in integers and multiplies once at its end.
#pragma once

#include "platforms/x86/block_avx512.h"

namespace paceline {

namespace {

// Sixteen sign bits at any address, vector v of a block.
PACELINE_INLINE __mmask16 sign_bits(const void* bits, size_t v) {
  uint16_t word;
  memcpy(&word, static_cast<const unsigned char*>(bits) + 2 * v, sizeof word);
  return word;
}

PACELINE_INLINE __m512 negate(__m512 v, __mmask16 where) {
  return _mm512_mask_xor_ps(v, where, v, _mm512_set1_ps(-0.0f));
}

// (a, b) -> (a + b, a - b) within a register: `swapped` has a and b exchanged, and `ones` is -1
// where b stands.
PACELINE_INLINE __m512 butterfly(__m512 v, __m512 swapped, __m512 ones) {
  return _mm512_fmadd_ps(v, ones, swapped);
}

PACELINE_INLINE __m512 ones(__mmask16 minus) { return negate(_mm512_set1_ps(1.0f), minus); }

// One stage across registers, kStride registers apart.
template <size_t kStride>
PACELINE_INLINE void stage_across(__m512 v[kVectors]) {
  PACELINE_UNROLL
  for (size_t i = 0; i < kVectors / 2; ++i) {
    const size_t k = i / kStride * 2 * kStride + i % kStride;
    const __m512 a = v[k];
    const __m512 b = v[k + kStride];
    v[k] = _mm512_add_ps(a, b);
    v[k + kStride] = _mm512_sub_ps(a, b);
  }
}

// Stages 1, 2, 4, 8 in each register, then 16 to 128 across them.
PACELINE_INLINE void hadamard(__m512 v[kVectors]) {
  const __m512 ones_1 = ones(0xAAAA);
  const __m512 ones_2 = ones(0xCCCC);
  const __m512 ones_4 = ones(0xF0F0);
  const __m512 ones_8 = ones(0xFF00);
  PACELINE_UNROLL
  for (size_t k = 0; k < kVectors; ++k) {
    v[k] = butterfly(v[k], _mm512_permute_ps(v[k], 0xB1), ones_1);
    v[k] = butterfly(v[k], _mm512_permute_ps(v[k], 0x4E), ones_2);
    v[k] = butterfly(v[k], _mm512_shuffle_f32x4(v[k], v[k], 0xB1), ones_4);
    v[k] = butterfly(v[k], _mm512_shuffle_f32x4(v[k], v[k], 0x4E), ones_8);
  }
  stage_across<1>(v);
  stage_across<2>(v);
  stage_across<4>(v);
  stage_across<8>(v);
}

// y = H(D c) to registers, c = flush(update + residual) to memory.
template <bool kFeedback>
PACELINE_INLINE void gather_rotated(const float* update, const float* residual,
                                    const uint64_t* signs, float* c, __m512 y[kVectors]) {
  PACELINE_UNROLL
  for (size_t v = 0; v < kVectors; ++v) {
    const __m512 value = flush(load_sum<kFeedback>(update, residual, v));
    if (kFeedback) _mm512_store_ps(c + v * kLanes, value);
    y[v] = negate(value, sign_bits(signs, v));
  }
  hadamard(y);
}

// Entry n: the transform of the four signs in the half byte n, as four int8.
struct SignTransforms {
  uint32_t of[16];
};
constexpr SignTransforms make_sign_transforms() {
  SignTransforms table{};
  for (uint32_t signs = 0; signs < 16; ++signs)
    for (uint32_t k = 0; k < 4; ++k) {
      int total = 0;
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t both = i & k;
        total += (((both >> 1) ^ both ^ (signs >> i)) & 1u) != 0 ? -1 : 1;
      }
      table.of[signs] |= (static_cast<uint32_t>(total) & 0xFFu) << (8 * k);
    }
  return table;
}
alignas(64) constexpr SignTransforms kSignTransforms = make_sign_transforms();

// A stage within a register of 64 int8; `minus` is set where b stands.
PACELINE_INLINE __m512i butterfly_8(__m512i v, __m512i swapped, __mmask64 minus) {
  return _mm512_mask_sub_epi8(_mm512_add_epi8(v, swapped), minus, swapped, v);
}

// Stages 1 to 16 of 64 signs, each one of +-1: sums of at most 32.
PACELINE_INLINE __m512i transform_64_signs(uint64_t word, __m512i table) {
  const __m512i bytes = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<int64_t>(word)));
  // Half byte i in the low bits of 32-bit lane i, which is all that the look-up reads.
  const __m512i index = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
  __m512i v = _mm512_permutexvar_epi32(index, table);
  v = butterfly_8(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB), 0xF0F0F0F0F0F0F0F0u);
  v = butterfly_8(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC), 0xFF00FF00FF00FF00u);
  return butterfly_8(v, _mm512_shuffle_i64x2(v, v, 0xB1), 0xFFFF0000FFFF0000u);
}

// D H(z) for z of +-1, given by 256 bits. out[m] holds elements 32 m .. 32 m + 31 as int16.
PACELINE_INLINE void transform_signs(const uint64_t words[4], const uint64_t* signs,
                                     __m512i out[8]) {
  const __m512i table = _mm512_load_si512(kSignTransforms.of);
  __m512i v[4];
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k) v[k] = transform_64_signs(words[k], table);
  // Stage 64: at most 64, which int8 holds; the other two are taken in int16.
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; k += 2) {
    const __m512i a = v[k];
    v[k] = _mm512_add_epi8(a, v[k + 1]);
    v[k + 1] = _mm512_sub_epi8(a, v[k + 1]);
  }
  __m512i w[8];
  PACELINE_UNROLL
  for (size_t k = 0; k < 4; ++k) {
    const __m512i low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(v[k]));
    const __m512i high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(v[k], 1));
    w[2 * k] = _mm512_add_epi16(low, high);
    w[2 * k + 1] = _mm512_sub_epi16(low, high);
  }
  PACELINE_UNROLL
  for (size_t k = 0; k < 8; ++k) {
    const __m512i a = w[k & 3];
    const __m512i b = w[(k & 3) + 4];
    const __m512i h = k < 4 ? _mm512_add_epi16(a, b) : _mm512_sub_epi16(a, b);
    uint32_t word;
    memcpy(&word, reinterpret_cast<const unsigned char*>(signs) + 4 * k, sizeof word);
    out[k] = _mm512_mask_sub_epi16(h, word, _mm512_setzero_si512(), h);
  }
}

// Calls use(v, whole) for each register v of D H(z), z of +-1: whole numbers, as floats.
template <class Use>
PACELINE_INLINE void for_transformed_signs(const uint64_t words[4], const uint64_t* signs,
                                           Use use) {
  __m512i h[8];
  transform_signs(words, signs, h);
  PACELINE_UNROLL
  for (size_t k = 0; k < 8; ++k) {
    const __m512i low = _mm512_cvtepi16_epi32(_mm512_castsi512_si256(h[k]));
    const __m512i high = _mm512_cvtepi16_epi32(_mm512_extracti64x4_epi64(h[k], 1));
    use(2 * k, _mm512_cvtepi32_ps(low));
    use(2 * k + 1, _mm512_cvtepi32_ps(high));
  }
}

}  // namespace

}  // namespace paceline
