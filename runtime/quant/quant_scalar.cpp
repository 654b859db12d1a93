// The specification of the kernel sets: plain C++, one float32 operation after the other, built for
// the baseline. Whatever is unclear elsewhere is what this file does.
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/kernels.h"

namespace paceline {

namespace {

// Adding and subtracting 1.5 * 2^23 rounds half to even on every CPU, for magnitudes below 2^22.
constexpr float kRoundMagic = 12582912.0f;

// c = flush(update + residual), or of the update alone; returns the bits of the largest |c|. As
// integers, NaN > infinity > every number.
uint32_t gather(const float* update, const float* residual, float* c) {
  uint32_t absmax = 0;
  for (size_t i = 0; i < kKernelBlock; ++i) {
    c[i] = flushed(residual == nullptr ? update[i] : update[i] + residual[i]);
    const uint32_t magnitude = bits_of(c[i]) & kMagnitudeBits;
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  return absmax;
}

// residual = flush(c - decoded), unless nobody wants it.
void keep_lost(const float* c, const float* decoded, float* residual) {
  if (residual == nullptr) return;
  for (size_t i = 0; i < kKernelBlock; ++i) residual[i] = flushed(c[i] - decoded[i]);
}

// Sixteen lanes in order, folded in halves: the shape of one 512-bit register.
float mean_magnitude(const float* values) {
  float lanes[16] = {};
  for (size_t j = 0; j < kKernelBlock; j += 16)
    for (size_t l = 0; l < 16; ++l) lanes[l] += float_of(bits_of(values[j + l]) & kMagnitudeBits);
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0] * (1.0f / 256.0f);
}

uint32_t sign_of(const uint64_t* signs, size_t i) {
  return static_cast<uint32_t>(signs[i / 64] >> (i % 64) & 1u) << 31;
}

uint32_t code_sign(const unsigned char* codes, size_t i) {
  return static_cast<uint32_t>(codes[i / 8] >> (i % 8) & 1u) << 31;
}

void store_signs(const float* values, unsigned char* codes) {
  for (size_t byte = 0; byte < kKernelBlock / 8; ++byte) {
    uint32_t packed = 0;
    for (size_t bit = 0; bit < 8; ++bit) packed |= (bits_of(values[byte * 8 + bit]) >> 31) << bit;
    codes[byte] = static_cast<unsigned char>(packed);
  }
}

// The Walsh-Hadamard transform, unscaled, stages 1, 2, 4, ..., 128.
void hadamard(float* values) {
  for (size_t h = 1; h < kKernelBlock; h *= 2)
    for (size_t group = 0; group < kKernelBlock; group += 2 * h)
      for (size_t i = group; i < group + h; ++i) {
        const float a = values[i];
        const float b = values[i + h];
        values[i] = a + b;
        values[i + h] = a - b;
      }
}

// y = H(D c) / 16; returns the bits of the largest |y|.
uint32_t rotate(const float* c, const uint64_t* signs, float* y) {
  for (size_t i = 0; i < kKernelBlock; ++i) y[i] = float_of(bits_of(c[i]) ^ sign_of(signs, i));
  hadamard(y);
  uint32_t absmax = 0;
  for (size_t i = 0; i < kKernelBlock; ++i) {
    y[i] *= 0.0625f;
    const uint32_t magnitude = bits_of(y[i]) & kMagnitudeBits;
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  return absmax;
}

// values = D H(values) / 16
void unrotate(float* values, const uint64_t* signs) {
  hadamard(values);
  for (size_t i = 0; i < kKernelBlock; ++i)
    values[i] = float_of(bits_of(values[i] * 0.0625f) ^ sign_of(signs, i));
}

void decode_signs(const unsigned char* codes, float scale, float* values) {
  for (size_t i = 0; i < kKernelBlock; ++i)
    values[i] = float_of(bits_of(scale) | code_sign(codes, i));
}

bool sums_in_range(const float* a, const float* b, size_t blocks) {
  uint32_t absmax = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; ++i) {
    const uint32_t magnitude = bits_of(b == nullptr ? a[i] : a[i] + b[i]) & kMagnitudeBits;
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  return absmax < kRangeBits;
}

void encode_q8(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks;
       ++block, update += kKernelBlock, residual = next_block(residual), codes += kKernelBlock) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kKernelBlock);
      continue;
    }
    const uint32_t scale_bits = q8_scale(absmax);
    store_bf16(scales, block, scale_bits);
    const float scale = bf16_to_float(scale_bits);
    const float inverse = 1.0f / scale;
    float decoded[kKernelBlock];
    for (size_t i = 0; i < kKernelBlock; ++i) {
      const float q = (c[i] * inverse + kRoundMagic) - kRoundMagic;
      codes[i] = static_cast<unsigned char>(static_cast<int32_t>(q));
      decoded[i] = q * scale;
    }
    keep_lost(c, decoded, residual);
  }
}

void encode_s1(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), codes += kKernelBlock / 8) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    const float mean = mean_magnitude(c);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kKernelBlock / 8);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    store_signs(c, codes);
    float decoded[kKernelBlock];
    decode_signs(codes, bf16_to_float(scale_bits), decoded);
    keep_lost(c, decoded, residual);
  }
}

void encode_s1r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64,
              codes += kKernelBlock / 8) {
    float c[kKernelBlock];
    float y[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    rotate(c, signs, y);
    const float mean = mean_magnitude(y);
    if (absmax >= kRangeBits || bits_of(mean) < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kKernelBlock / 8);
      continue;
    }
    const uint32_t scale_bits = bf16_half_even(mean);
    store_bf16(scales, block, scale_bits);
    store_signs(y, codes);
    decode_signs(codes, bf16_to_float(scale_bits), y);
    unrotate(y, signs);
    keep_lost(c, y, residual);
  }
}

void add_q8(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock, into += kKernelBlock) {
    const float scale = bf16_to_float(load_bf16(scales, block));
    for (size_t i = 0; i < kKernelBlock; ++i)
      into[i] = flushed(into[i] + scale * static_cast<float>(static_cast<int8_t>(codes[i])));
  }
}

void add_s1(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock / 8, into += kKernelBlock) {
    const uint32_t magnitude = load_bf16(scales, block) << 16;
    for (size_t i = 0; i < kKernelBlock; ++i)
      into[i] = flushed(into[i] + float_of(magnitude | code_sign(codes, i)));
  }
}

void add_s1r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kKernelBlock / 8, into += kKernelBlock) {
    float z[kKernelBlock];
    decode_signs(codes, bf16_to_float(load_bf16(scales, block)), z);
    unrotate(z, signs);
    for (size_t i = 0; i < kKernelBlock; ++i) into[i] = flushed(into[i] + z[i]);
  }
}

void sum_q8(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t t = 0; t < count; ++t)
    for (size_t i = 0; i < kKernelBlock; ++i)
      acc[i] += terms[t].weight * static_cast<float>(static_cast<int8_t>(terms[t].codes[i]));
}

void sum_s1(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t t = 0; t < count; ++t)
    for (size_t i = 0; i < kKernelBlock; ++i)
      acc[i] += float_of(bits_of(terms[t].weight) ^ code_sign(terms[t].codes, i));
}

void unrotate_add(float* rotated, const uint64_t* signs, float* into) {
  unrotate(rotated, signs);
  for (size_t i = 0; i < kKernelBlock; ++i) into[i] += rotated[i];
}

// Codes of a block by its scale, and what they decode to.
void store_q4(const float* values, float scale, unsigned char* codes, float* decoded) {
  const float inverse = 1.0f / scale;
  int32_t q[kKernelBlock];
  for (size_t i = 0; i < kKernelBlock; ++i) {
    const float rounded = (values[i] * inverse + kRoundMagic) - kRoundMagic;
    q[i] = static_cast<int32_t>(rounded);
    decoded[i] = rounded * scale;
  }
  for (size_t byte = 0; byte < kKernelBlock / 2; ++byte)
    codes[byte] = static_cast<unsigned char>((q[2 * byte] & 0xF) | (q[2 * byte + 1] & 0xF) << 4);
}

// Half bytes in two's complement: 0x9 .. 0xF stand for -7 .. -1.
float q4_code(const unsigned char* codes, size_t i) {
  const int32_t nibble = codes[i / 2] >> (i % 2 * 4) & 0xF;
  return static_cast<float>((nibble ^ 8) - 8);
}

void encode_q4(const float* update, float* residual, size_t blocks, unsigned char* scales,
               unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), codes += kKernelBlock / 2) {
    float c[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    if (absmax < kZeroBlockBits || absmax >= kRangeBits) {
      skip_block(absmax < kZeroBlockBits, update, residual, scales, block, codes, kKernelBlock / 2);
      continue;
    }
    const uint32_t scale_bits = q4_scale(absmax);
    store_bf16(scales, block, scale_bits);
    float decoded[kKernelBlock];
    store_q4(c, bf16_to_float(scale_bits), codes, decoded);
    keep_lost(c, decoded, residual);
  }
}

void encode_q4r(const float* update, float* residual, const uint64_t* signs, size_t blocks,
                unsigned char* scales, unsigned char* codes) {
  for (size_t block = 0; block < blocks; ++block, update += kKernelBlock,
              residual = next_block(residual), signs += kKernelBlock / 64,
              codes += kKernelBlock / 2) {
    float c[kKernelBlock];
    float y[kKernelBlock];
    const uint32_t absmax = gather(update, residual, c);
    const uint32_t rotated_max = rotate(c, signs, y);
    if (absmax >= kRangeBits || rotated_max < kZeroBlockBits) {
      skip_block(absmax < kRangeBits, update, residual, scales, block, codes, kKernelBlock / 2);
      continue;
    }
    const uint32_t scale_bits = q4_scale(rotated_max);
    store_bf16(scales, block, scale_bits);
    float decoded[kKernelBlock];
    store_q4(y, bf16_to_float(scale_bits), codes, decoded);
    unrotate(decoded, signs);
    keep_lost(c, decoded, residual);
  }
}

void add_q4(const unsigned char* scales, const unsigned char* codes, size_t blocks, float* into) {
  for (size_t block = 0; block < blocks; ++block, codes += kKernelBlock / 2, into += kKernelBlock) {
    const float scale = bf16_to_float(load_bf16(scales, block));
    for (size_t i = 0; i < kKernelBlock; ++i)
      into[i] = flushed(into[i] + scale * q4_code(codes, i));
  }
}

void add_q4r(const unsigned char* scales, const unsigned char* codes, const uint64_t* signs,
             size_t blocks, float* into) {
  for (size_t block = 0; block < blocks;
       ++block, signs += kKernelBlock / 64, codes += kKernelBlock / 2, into += kKernelBlock) {
    const float scale = bf16_to_float(load_bf16(scales, block));
    float z[kKernelBlock];
    for (size_t i = 0; i < kKernelBlock; ++i) z[i] = scale * q4_code(codes, i);
    unrotate(z, signs);
    for (size_t i = 0; i < kKernelBlock; ++i) into[i] = flushed(into[i] + z[i]);
  }
}

void sum_q4(const BlockTerm* terms, size_t count, float* acc) {
  for (size_t t = 0; t < count; ++t)
    for (size_t i = 0; i < kKernelBlock; ++i)
      acc[i] += terms[t].weight * q4_code(terms[t].codes, i);
}

bool subtract(const float* a, const float* b, size_t blocks, float* difference) {
  for (size_t i = 0; i < blocks * kKernelBlock; ++i) difference[i] = a[i] - b[i];
  return sums_in_range(difference, nullptr, blocks);
}

void apply_mean(const float* sum, float divisor, float keep, size_t blocks, float* master) {
  for (size_t i = 0; i < blocks * kKernelBlock; ++i) {
    const uint32_t bits = bits_of(sum[i]);
    const float acc = float_of((bits & kMagnitudeBits) < kSumFlushBits ? 0u : bits);
    const float mean = flushed(acc / divisor);
    const float kept = keep == 1.0f ? master[i] : master[i] * keep;
    master[i] = flushed(kept + mean);
  }
}

bool close(const ClosingBlocks& closing, float* difference) {
  apply_mean(closing.sum, closing.divisor, closing.keep, closing.blocks, closing.master);
  memcpy(closing.next, closing.published, closing.blocks * kKernelBlock * sizeof(float));
  return subtract(closing.master, closing.published, closing.blocks, difference);
}

uint32_t gather_maxima(const float* update, float* residual, size_t blocks, size_t strip,
                       uint32_t* maxima) {
  constexpr size_t kStrips = 8;
  uint32_t absmax = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; i += kStrips * strip, maxima += kStrips) {
    uint32_t largest[kStrips] = {};
    for (size_t j = i; j < i + kStrips * strip; j += kStrips)
      for (size_t l = 0; l < kStrips; ++l) {
        float c = update[j + l];
        if (residual != nullptr) residual[j + l] = c = flushed(c + residual[j + l]);
        const uint32_t magnitude = bits_of(c) & kMagnitudeBits;
        largest[l] = magnitude > largest[l] ? magnitude : largest[l];
      }
    for (size_t l = 0; l < kStrips; ++l) absmax = largest[l] > absmax ? largest[l] : absmax;
    memcpy(maxima, largest, sizeof largest);
  }
  return absmax;
}

size_t find_large(const float* values, size_t blocks, uint32_t least, uint16_t* positions) {
  size_t found = 0;
  for (size_t i = 0; i < blocks * kKernelBlock; ++i)
    if ((bits_of(values[i]) & kMagnitudeBits) >= least)
      positions[found++] = static_cast<uint16_t>(i);
  return found;
}

}  // namespace

extern const KernelSet kernel_set_scalar;
constinit const KernelSet kernel_set_scalar = {
    .name = "scalar",
    .cpu_features = 0,
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
};

}  // namespace paceline
