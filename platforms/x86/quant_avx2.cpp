// Kernels for x86 with AVX2. Multiplications and additions stay apart: FMA would change codes.
//
// A block is 32 registers of eight floats, more than there are, so each encoder makes two trips:
// the first leaves c (or y) in a buffer that stays in the first-level cache, the second writes the
// residual. Blocks are whole, so no loop has a tail.
#include <immintrin.h>

#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

#define PACELINE_INLINE static inline __attribute__((always_inline))

constexpr size_t kLanes = 8;
constexpr size_t kVectors = kKernelBlock / kLanes;

PACELINE_INLINE __m256 magnitude(__m256 v) {
  return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(kMagnitudeBits)));
}

PACELINE_INLINE __m256 flush(__m256 v) {
  const __m256i bits = _mm256_castps_si256(magnitude(v));
  const __m256i keep = _mm256_cmpgt_epi32(bits, _mm256_set1_epi32(kFlushBits - 1));
  return _mm256_and_ps(v, _mm256_castsi256_ps(keep));
}

PACELINE_INLINE uint32_t max_lane(__m256i v) {
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// The sixteen lanes of a mean, folded 16 -> 8 -> 4 -> 2 -> 1.
PACELINE_INLINE float fold(__m256 lanes_0_to_7, __m256 lanes_8_to_15) {
  const __m256 eight = _mm256_add_ps(lanes_0_to_7, lanes_8_to_15);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

PACELINE_INLINE uint32_t load_u32(const void* from) {
  uint32_t word;
  memcpy(&word, from, sizeof word);
  return word;
}

// Bits 8 byte .. 8 byte + 7 of a word in every lane, as sign bits of eight floats.
PACELINE_INLINE __m256 sign_mask(__m256i word, size_t byte) {
  const __m256i shifts = _mm256_sub_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24),
                                          _mm256_set1_epi32(static_cast<int>(8 * byte)));
  const __m256i shifted = _mm256_sllv_epi32(word, shifts);
  return _mm256_and_ps(_mm256_castsi256_ps(shifted), _mm256_set1_ps(-0.0f));
}

// The 32 signs that begin at bit 32 i.
PACELINE_INLINE __m256i sign_word(const void* bits, size_t i) {
  return _mm256_set1_epi32(
      static_cast<int>(load_u32(static_cast<const unsigned char*>(bits) + 4 * i)));
}

// c = flush(update + residual), eight lanes.
PACELINE_INLINE __m256 load_sum(const float* update, const float* residual, __m256i* absmax) {
  const __m256 c = _mm256_add_ps(_mm256_loadu_ps(update), _mm256_loadu_ps(residual));
  *absmax = _mm256_max_epi32(*absmax, _mm256_castps_si256(magnitude(c)));
  return flush(c);
}

// What becomes of a block that is not encoded: all small, or with a value out of range.
static void skip_block(bool zero, const float* c, float* residual, unsigned char* scales,
                       size_t block, unsigned char* codes, size_t code_bytes) {
  store_bf16(scales, block, zero ? 0u : kScaleRefused);
  memset(codes, 0, code_bytes);
  if (zero) memcpy(residual, c, kKernelBlock * sizeof(float));
}

bool sums_in_range(const float* a, const float* b, size_t blocks) {
  __m256i absmax[4] = {};
  for (size_t i = 0; i < blocks * kKernelBlock; i += 4 * kLanes)
    for (size_t k = 0; k < 4; ++k) {
      const size_t at = i + k * kLanes;
      const __m256 sum = _mm256_add_ps(_mm256_loadu_ps(a + at), _mm256_loadu_ps(b + at));
      absmax[k] = _mm256_max_epi32(absmax[k], _mm256_castps_si256(magnitude(sum)));
    }
  return max_lane(_mm256_max_epi32(_mm256_max_epi32(absmax[0], absmax[1]),
                                   _mm256_max_epi32(absmax[2], absmax[3]))) < kRangeBits;
}

// Codes and residual of 32 elements. cvtps rounds half to even, and |c * inverse| hardly passes
// 127.
PACELINE_INLINE void encode_q8_32(const float* c, __m256 scale, __m256 inverse, float* residual,
                                  unsigned char* codes) {
  __m256i q[4];
  for (size_t k = 0; k < 4; ++k) {
    const __m256 value = _mm256_load_ps(c + k * kLanes);
    q[k] = _mm256_cvtps_epi32(_mm256_mul_ps(value, inverse));
    const __m256 decoded = _mm256_mul_ps(_mm256_cvtepi32_ps(q[k]), scale);
    _mm256_storeu_ps(residual + k * kLanes, flush(_mm256_sub_ps(value, decoded)));
  }
  const __m256i packed =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  // The packs work in 128-bit halves; this puts the groups of four back in order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes),
                      _mm256_permutevar8x32_epi32(packed, order));
}

void encode_q8(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual += kKernelBlock, codes += kKernelBlock) {
    alignas(32) float c[kKernelBlock];
    __m256i maxima[4] = {};
    for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes)
      for (size_t k = 0; k < 4; ++k) {
        const size_t at = i + k * kLanes;
        _mm256_store_ps(c + at, load_sum(update + at, residual + at, &maxima[k]));
      }
    const uint32_t absmax = max_lane(_mm256_max_epi32(_mm256_max_epi32(maxima[0], maxima[1]),
                                                      _mm256_max_epi32(maxima[2], maxima[3])));
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, c, residual, scales, block, codes, kKernelBlock);
      continue;
    }
    const uint32_t scale_bits = q8_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const __m256 scales_8 = _mm256_set1_ps(scale);
    const __m256 inverse_8 = _mm256_set1_ps(1.0f / scale);
    for (size_t i = 0; i < kKernelBlock; i += 4 * kLanes)
      encode_q8_32(c + i, scales_8, inverse_8, residual + i, codes + i);
  }
}

void encode_s1(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual += kKernelBlock, codes += kVectors) {
    alignas(32) float c[kKernelBlock];
    __m256i maxima[2] = {};
    __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t v = 0; v < kVectors; v += 2)
      for (size_t k = 0; k < 2; ++k) {
        const size_t at = (v + k) * kLanes;
        const __m256 value = load_sum(update + at, residual + at, &maxima[k]);
        _mm256_store_ps(c + at, value);
        lanes[k] = _mm256_add_ps(lanes[k], magnitude(value));
        codes[v + k] = static_cast<unsigned char>(_mm256_movemask_ps(value));
      }
    const uint32_t absmax = max_lane(_mm256_max_epi32(maxima[0], maxima[1]));
    const float mean = fold(lanes[0], lanes[1]) * (1.0f / 256.0f);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, c, residual, scales, block, codes, kVectors);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    const __m256 scale = _mm256_set1_ps(bf16_to_float(scale_bits));
    for (size_t i = 0; i < kKernelBlock; i += kLanes) {
      const __m256 value = _mm256_load_ps(c + i);
      const __m256 sign = _mm256_and_ps(value, _mm256_set1_ps(-0.0f));
      _mm256_storeu_ps(residual + i, flush(_mm256_sub_ps(value, _mm256_or_ps(scale, sign))));
    }
  }
}

// (a, b) -> (a + b, a - b) within a register: `swapped` has a and b exchanged, and `minus` is -0
// where b stands. a - b is a + -b to the bit.
PACELINE_INLINE __m256 butterfly(__m256 v, __m256 swapped, __m256 minus) {
  return _mm256_add_ps(swapped, _mm256_xor_ps(v, minus));
}

// Stages 1, 2, 4 in each of eight registers, then 8, 16, 32 across them.
PACELINE_INLINE void hadamard_64(__m256 v[8]) {
  const __m256 minus_1 = _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f);
  const __m256 minus_2 = _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f);
  const __m256 minus_4 = _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
  for (size_t k = 0; k < 8; ++k) {
    v[k] = butterfly(v[k], _mm256_permute_ps(v[k], 0xB1), minus_1);
    v[k] = butterfly(v[k], _mm256_permute_ps(v[k], 0x4E), minus_2);
    v[k] = butterfly(v[k], _mm256_permute2f128_ps(v[k], v[k], 1), minus_4);
  }
  for (size_t h = 1; h < 8; h *= 2)
    for (size_t group = 0; group < 8; group += 2 * h)
      for (size_t k = group; k < group + h; ++k) {
        const __m256 a = v[k];
        const __m256 b = v[k + h];
        v[k] = _mm256_add_ps(a, b);
        v[k + h] = _mm256_sub_ps(a, b);
      }
}

// Stages 64 and 128 and the factor 1/16 of the four registers v, v + 8, v + 16, v + 24.
PACELINE_INLINE void hadamard_top(const float* values, size_t v, __m256 out[4]) {
  const __m256 a = _mm256_load_ps(values + v * kLanes);
  const __m256 b = _mm256_load_ps(values + (v + 8) * kLanes);
  const __m256 c = _mm256_load_ps(values + (v + 16) * kLanes);
  const __m256 d = _mm256_load_ps(values + (v + 24) * kLanes);
  const __m256 ab = _mm256_add_ps(a, b);
  const __m256 a_b = _mm256_sub_ps(a, b);
  const __m256 cd = _mm256_add_ps(c, d);
  const __m256 c_d = _mm256_sub_ps(c, d);
  const __m256 sixteenth = _mm256_set1_ps(0.0625f);
  out[0] = _mm256_mul_ps(_mm256_add_ps(ab, cd), sixteenth);
  out[1] = _mm256_mul_ps(_mm256_add_ps(a_b, c_d), sixteenth);
  out[2] = _mm256_mul_ps(_mm256_sub_ps(ab, cd), sixteenth);
  out[3] = _mm256_mul_ps(_mm256_sub_ps(a_b, c_d), sixteenth);
}

// Entry b: the transform of the eight signs in byte b, as integers.
struct SignTransforms {
  int8_t of[256][8];
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
constexpr SignTransforms kSignTransforms = make_sign_transforms();

// H z for z of +-1, in int16: sums of at most 256 ones are exact in any order, in integers as in
// float32, so half the registers and a table for the first three stages serve. Register m of `out`
// holds elements 8 m .. 8 m + 7 in its lower half and those 128 further in its upper half, and
// lacks the last stage, between the halves.
PACELINE_INLINE void hadamard_signs(const unsigned char* codes, __m256i out[16]) {
  for (size_t group = 0; group < 16; group += 8) {
    __m256i v[8];
    for (size_t k = 0; k < 8; ++k) {
      const __m128i low =
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSignTransforms.of[codes[group + k]]));
      const __m128i high = _mm_loadl_epi64(
          reinterpret_cast<const __m128i*>(kSignTransforms.of[codes[group + k + 16]]));
      v[k] = _mm256_cvtepi8_epi16(_mm_unpacklo_epi64(low, high));
    }
    for (size_t h = 1; h < 8; h *= 2)
      for (size_t first = 0; first < 8; first += 2 * h)
        for (size_t k = first; k < first + h; ++k) {
          const __m256i a = v[k];
          const __m256i b = v[k + h];
          v[k] = _mm256_add_epi16(a, b);
          v[k + h] = _mm256_sub_epi16(a, b);
        }
    for (size_t k = 0; k < 8; ++k) out[group + k] = v[k];
  }
}

// Calls use(v, decoded) for each register v of D H(z) / 16, z = +-scale.
template <class Use>
PACELINE_INLINE void decode_rotated(const unsigned char* codes, float scale, const uint64_t* signs,
                                    Use use) {
  __m256i h[16];
  hadamard_signs(codes, h);
  const __m256 factor = _mm256_set1_ps(scale * 0.0625f);
  for (size_t quad = 0; quad < 2; ++quad) {
    __m256i words[4];
    for (size_t k = 0; k < 4; ++k) words[k] = sign_word(signs, quad + 2 * k);
    for (size_t m = 4 * quad; m < 4 * quad + 4; ++m) {
      const __m256i pair[2] = {_mm256_add_epi16(h[m], h[m + 8]), _mm256_sub_epi16(h[m], h[m + 8])};
      for (size_t k = 0; k < 2; ++k) {
        const __m256i low = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(pair[k]));
        const __m256i high = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(pair[k], 1));
        const __m256 first = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(low, high)), factor);
        const __m256 last = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(low, high)), factor);
        use(m + 8 * k, _mm256_xor_ps(first, sign_mask(words[k], m % 4)));
        use(m + 8 * k + 16, _mm256_xor_ps(last, sign_mask(words[k + 2], m % 4)));
      }
    }
  }
}

// c = flush(update + residual) and y = H(D c) before the last two stages; returns the bits of the
// largest |c|.
PACELINE_INLINE uint32_t gather_rotated(const float* update, const float* residual,
                                        const uint64_t* signs, float* c, float* y) {
  __m256i absmax[2] = {};
  for (size_t group = 0; group < kVectors; group += 8) {
    const __m256i words[2] = {sign_word(signs, group / 4), sign_word(signs, group / 4 + 1)};
    __m256 v[8];
    for (size_t k = 0; k < 8; ++k) {
      const size_t at = (group + k) * kLanes;
      const __m256 value = load_sum(update + at, residual + at, &absmax[k % 2]);
      _mm256_store_ps(c + at, value);
      v[k] = _mm256_xor_ps(value, sign_mask(words[k / 4], k % 4));
    }
    hadamard_64(v);
    for (size_t k = 0; k < 8; ++k) _mm256_store_ps(y + (group + k) * kLanes, v[k]);
  }
  return max_lane(_mm256_max_epi32(absmax[0], absmax[1]));
}

// Finishes y, packs its signs and returns its mean magnitude.
PACELINE_INLINE float finish_rotated(float* y, unsigned char* codes) {
  for (size_t v = 0; v < 8; ++v) {
    __m256 top[4];
    hadamard_top(y, v, top);
    for (size_t k = 0; k < 4; ++k) _mm256_store_ps(y + (v + 8 * k) * kLanes, top[k]);
  }
  __m256 lanes[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t v = 0; v < kVectors; v += 2)
    for (size_t k = 0; k < 2; ++k) {
      const __m256 value = _mm256_load_ps(y + (v + k) * kLanes);
      lanes[k] = _mm256_add_ps(lanes[k], magnitude(value));
      codes[v + k] = static_cast<unsigned char>(_mm256_movemask_ps(value));
    }
  return fold(lanes[0], lanes[1]) * (1.0f / 256.0f);
}

void encode_s1r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock, residual += kKernelBlock,
              signs += kKernelBlock / 64, codes += kVectors) {
    alignas(32) float c[kKernelBlock];
    alignas(32) float y[kKernelBlock];
    const uint32_t absmax = gather_rotated(update, residual, signs, c, y);
    const float mean = finish_rotated(y, codes);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, c, residual, scales, block, codes, kVectors);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    decode_rotated(codes, bf16_to_float(scale_bits), signs, [&](size_t v, __m256 decoded) {
      const __m256 value = _mm256_load_ps(c + v * kLanes);
      _mm256_storeu_ps(residual + v * kLanes, flush(_mm256_sub_ps(value, decoded)));
    });
  }
}

PACELINE_INLINE __m256 load_codes(const unsigned char* codes) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

PACELINE_INLINE void add_flushed(float* into, __m256 decoded) {
  _mm256_storeu_ps(into, flush(_mm256_add_ps(_mm256_loadu_ps(into), decoded)));
}

void add_q8(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock, into += kKernelBlock) {
    const __m256 scale = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)));
    for (size_t i = 0; i < kKernelBlock; i += kLanes)
      add_flushed(into + i, _mm256_mul_ps(scale, load_codes(codes + i)));
  }
}

void add_s1(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kVectors, into += kKernelBlock) {
    const __m256 scale = _mm256_set1_ps(bf16_to_float(load_bf16(scales, block)));
    for (size_t word = 0; word < kKernelBlock / 32; ++word) {
      const __m256i bits = sign_word(codes, word);
      for (size_t k = 0; k < 4; ++k)
        add_flushed(into + word * 32 + k * kLanes, _mm256_or_ps(scale, sign_mask(bits, k)));
    }
  }
}

void add_s1r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kVectors, into += kKernelBlock)
    decode_rotated(codes, bf16_to_float(load_bf16(scales, block)), signs,
                   [&](size_t v, __m256 decoded) { add_flushed(into + v * kLanes, decoded); });
}

void sum_q8(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += 8 * kLanes) {
    __m256 sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_loadu_ps(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const __m256 weight = _mm256_set1_ps(terms[t].weight);
      const unsigned char* codes = terms[t].codes + slice;
      for (size_t k = 0; k < 8; ++k)
        sums[k] = _mm256_add_ps(sums[k], _mm256_mul_ps(weight, load_codes(codes + k * kLanes)));
    }
    for (size_t k = 0; k < 8; ++k) _mm256_storeu_ps(acc + slice + k * kLanes, sums[k]);
  }
}

void sum_s1(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t slice = 0; slice < kKernelBlock; slice += 8 * kLanes) {
    __m256 sums[8];
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_loadu_ps(acc + slice + k * kLanes);
    for (size_t t = 0; t < count; ++t) {
      const __m256 weight = _mm256_set1_ps(terms[t].weight);
      const __m256i words[2] = {sign_word(terms[t].codes, slice / 32),
                                sign_word(terms[t].codes, slice / 32 + 1)};
      for (size_t k = 0; k < 8; ++k)
        sums[k] = _mm256_add_ps(sums[k], _mm256_xor_ps(weight, sign_mask(words[k / 4], k % 4)));
    }
    for (size_t k = 0; k < 8; ++k) _mm256_storeu_ps(acc + slice + k * kLanes, sums[k]);
  }
}

void unrotate_add(float* rotated, const uint64_t* signs, float* into) {
  alignas(32) float h[kKernelBlock];
  for (size_t group = 0; group < kVectors; group += 8) {
    __m256 v[8];
    for (size_t k = 0; k < 8; ++k) v[k] = _mm256_loadu_ps(rotated + (group + k) * kLanes);
    hadamard_64(v);
    for (size_t k = 0; k < 8; ++k) _mm256_store_ps(h + (group + k) * kLanes, v[k]);
  }
  for (size_t v = 0; v < 8; ++v) {
    __m256 top[4];
    hadamard_top(h, v, top);
    for (size_t k = 0; k < 4; ++k) {
      const size_t at = v + 8 * k;
      const __m256 sign = sign_mask(sign_word(signs, at / 4), at % 4);
      float* to = into + at * kLanes;
      _mm256_storeu_ps(to, _mm256_add_ps(_mm256_loadu_ps(to), _mm256_xor_ps(top[k], sign)));
    }
  }
}

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
};

}  // namespace paceline
