// The Walsh-Hadamard transform of a block in 256-bit registers: 32 registers of eight floats, twice
// what there is, so it goes through memory once.
//
// Every product here is exact (by 1, -1 or a power of two), so a fused multiply-add rounds once, as
// the addition of the specification does. What is transformed back is a scale times whole numbers
// of at most 256, so that direction runs in integers and multiplies once at its end.
#pragma once

#include "platforms/x86/block_avx2.h"

namespace paceline {

namespace {

// Entry b: the eight bits of byte b as sign bits of eight floats.
struct SignMasks {
  uint32_t of[256][kLanes];
};
constexpr SignMasks make_sign_masks() {
  SignMasks table{};
  for (uint32_t byte = 0; byte < 256; ++byte)
    for (uint32_t bit = 0; bit < kLanes; ++bit)
      table.of[byte][bit] = (byte >> bit & 1u) != 0 ? uint32_t{kSignBit} : 0u;
  return table;
}
alignas(32) constexpr SignMasks kSignMasks = make_sign_masks();

// The sign bits of vector v of a block.
PACELINE_INLINE __m256 sign_mask(const void* bits, size_t v) {
  const unsigned char byte = static_cast<const unsigned char*>(bits)[v];
  return _mm256_castsi256_ps(
      _mm256_load_si256(reinterpret_cast<const __m256i*>(kSignMasks.of[byte])));
}

// (a, b) -> (a + b, a - b) within a register: `swapped` has a and b exchanged, and `ones` is -1
// where b stands.
PACELINE_INLINE __m256 butterfly(__m256 v, __m256 swapped, __m256 ones) {
  return _mm256_fmadd_ps(v, ones, swapped);
}

// Stages 1, 2, 4 in each of eight registers, then 8, 16, 32 across them.
PACELINE_INLINE void hadamard_64(__m256 v[8]) {
  const __m256 ones_1 = _mm256_setr_ps(1, -1, 1, -1, 1, -1, 1, -1);
  const __m256 ones_2 = _mm256_setr_ps(1, 1, -1, -1, 1, 1, -1, -1);
  const __m256 ones_4 = _mm256_setr_ps(1, 1, 1, 1, -1, -1, -1, -1);
  PACELINE_UNROLL
  for (size_t k = 0; k < 8; ++k) {
    v[k] = butterfly(v[k], _mm256_permute_ps(v[k], 0xB1), ones_1);
    v[k] = butterfly(v[k], _mm256_permute_ps(v[k], 0x4E), ones_2);
    v[k] = butterfly(v[k], _mm256_permute2f128_ps(v[k], v[k], 1), ones_4);
  }
  for (size_t h = 1; h < 8; h *= 2)
    for (size_t i = 0; i < 4; ++i) {
      const size_t k = i / h * 2 * h + i % h;
      const __m256 a = v[k];
      const __m256 b = v[k + h];
      v[k] = _mm256_add_ps(a, b);
      v[k + h] = _mm256_sub_ps(a, b);
    }
}

// Stages 1 to 32 of a block: load(v) gives register v, h takes what comes of it.
template <class Load>
PACELINE_INLINE void transform_groups(Load load, float* h) {
  for (size_t group = 0; group < kVectors; group += 8) {
    __m256 v[8];
    for (size_t k = 0; k < 8; ++k) v[k] = load(group + k);
    hadamard_64(v);
    for (size_t k = 0; k < 8; ++k) _mm256_store_ps(h + (group + k) * kLanes, v[k]);
  }
}

// Stages 64 and 128 of the four registers v, v + 8, v + 16, v + 24.
PACELINE_INLINE void hadamard_top(const float* values, size_t v, __m256 out[4]) {
  const __m256 a = _mm256_load_ps(values + v * kLanes);
  const __m256 b = _mm256_load_ps(values + (v + 8) * kLanes);
  const __m256 c = _mm256_load_ps(values + (v + 16) * kLanes);
  const __m256 d = _mm256_load_ps(values + (v + 24) * kLanes);
  const __m256 ab = _mm256_add_ps(a, b);
  const __m256 a_b = _mm256_sub_ps(a, b);
  const __m256 cd = _mm256_add_ps(c, d);
  const __m256 c_d = _mm256_sub_ps(c, d);
  out[0] = _mm256_add_ps(ab, cd);
  out[1] = _mm256_add_ps(a_b, c_d);
  out[2] = _mm256_sub_ps(ab, cd);
  out[3] = _mm256_sub_ps(a_b, c_d);
}

// Stages 64 and 128 of a block: calls use(v, value) for each register v, not in order.
template <class Use>
PACELINE_INLINE void transform_tops(const float* h, Use use) {
  for (size_t v = 0; v < 8; ++v) {
    __m256 top[4];
    hadamard_top(h, v, top);
    for (size_t k = 0; k < 4; ++k) use(v + 8 * k, top[k]);
  }
}

// c = flush(update + residual) and y = H(D c) before stages 64 and 128.
template <bool kFeedback>
PACELINE_INLINE void gather_rotated(const float* update, const float* residual,
                                    const uint64_t* signs, float* c, float* y) {
  transform_groups(
      [&](size_t v) {
        const __m256 value = flush(load_sum<kFeedback>(update, residual, v));
        if (kFeedback) _mm256_store_ps(c + v * kLanes, value);
        return _mm256_xor_ps(value, sign_mask(signs, v));
      },
      y);
}

// Entry b: the transform of the eight signs in byte b, as eight int8.
struct SignTransforms {
  int8_t of[256][kLanes];
};
constexpr SignTransforms make_sign_transforms() {
  SignTransforms table{};
  for (int byte = 0; byte < 256; ++byte)
    for (int k = 0; k < 8; ++k) {
      int total = 0;
      for (int i = 0; i < 8; ++i) {
        const int both = i & k;
        const int parity = ((both >> 2) ^ (both >> 1) ^ both ^ (byte >> i)) & 1;
        total += parity ? -1 : 1;
      }
      table.of[byte][k] = static_cast<int8_t>(total);
    }
  return table;
}
alignas(64) constexpr SignTransforms kSignTransforms = make_sign_transforms();

PACELINE_INLINE __m128i transform_16_signs(const unsigned char* codes) {
  const auto eight = [](unsigned char byte) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSignTransforms.of[byte]));
  };
  return _mm_unpacklo_epi64(eight(codes[0]), eight(codes[1]));
}

// Stages 1, 2, 4, 32, 64, 128 of H(z) for z of +-1: sums of at most 64. out[m] holds elements 32 m
// .. 32 m + 31 as int8.
PACELINE_INLINE void transform_signs(const unsigned char* codes, __m256i out[8]) {
  PACELINE_UNROLL
  for (size_t m = 0; m < 8; ++m)
    out[m] =
        _mm256_set_m128i(transform_16_signs(codes + 4 * m + 2), transform_16_signs(codes + 4 * m));
  for (size_t h = 1; h < 8; h *= 2)
    for (size_t i = 0; i < 4; ++i) {
      const size_t k = i / h * 2 * h + i % h;
      const __m256i a = out[k];
      const __m256i b = out[k + h];
      out[k] = _mm256_add_epi8(a, b);
      out[k + h] = _mm256_sub_epi8(a, b);
    }
}

// Calls use(v, whole) for each register v of H(z), z of +-1: whole numbers, as floats. The last two
// stages lie between the halves that widening makes.
template <class Use>
PACELINE_INLINE void for_transformed_signs(const unsigned char* codes, Use use) {
  __m256i h[8];
  transform_signs(codes, h);
  for (size_t m = 0; m < 8; ++m) {
    const __m256i low = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(h[m]));
    const __m256i high = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(h[m], 1));
    const __m256i pair[2] = {_mm256_add_epi16(low, high), _mm256_sub_epi16(low, high)};
    for (size_t k = 0; k < 2; ++k) {
      const __m256i a = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(pair[k]));
      const __m256i b = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(pair[k], 1));
      use(4 * m + 2 * k, _mm256_cvtepi32_ps(_mm256_add_epi32(a, b)));
      use(4 * m + 2 * k + 1, _mm256_cvtepi32_ps(_mm256_sub_epi32(a, b)));
    }
  }
}

}  // namespace

}  // namespace paceline
