// BF16: float32 rounded half to even to its upper 16 bits.
#include <cstring>

#include "runtime/quant/value_blocks.h"

namespace paceline {

namespace {

struct Bf16 {
  static constexpr float kMax = 0x1p119f;  // what lies just below it rounds up to it
  static float load(const unsigned char* codes, size_t i) {
    return bf16_to_float(load_bf16(codes, i));
  }
};

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  for (size_t at = 0; at < element_total(blocks); at += kBlockElements) {
    // Local arrays, so that the compiler sees that nothing overlaps.
    float c[kBlockElements];
    uint16_t codes[kBlockElements];
    for (size_t i = 0; i < kBlockElements; ++i)
      c[i] = flushed(residual == nullptr ? update[at + i] : update[at + i] + residual[at + i]);
    for (size_t i = 0; i < kBlockElements; ++i) {
      const uint32_t code = bf16_half_even(c[i]);
      codes[i] = static_cast<uint16_t>(code);
      c[i] = flushed(c[i] - bf16_to_float(code));
    }
    std::memcpy(out.codes + at * sizeof(uint16_t), codes, sizeof codes);
    if (residual != nullptr) std::memcpy(residual + at, c, sizeof c);
  }
}

}  // namespace

constinit const BlockCoder block_coder_bf16 = {
    .info = {CodecId::kBf16, "bf16", 16.0, "nearly exact: warm-up, or where 8 bits are refused",
             true, 1e-6},
    .scale_bytes = 0,
    .code_bytes = kBlockElements * 2,
    .takes_narrow = true,
    .rotated = false,
    .entry_bytes_max = 0,
    .encode = encode,
    .verify = verify_values<Bf16>,
    .add = add_values<Bf16>,
    .sum = sum_values<Bf16>,
    .norm_squared = values_norm_squared<Bf16>,
};

}  // namespace paceline
