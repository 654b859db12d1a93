// BF16: float32 rounded half to even to its upper 16 bits.
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
  for (size_t i = 0; i < element_total(blocks); ++i) {
    const float c = flushed(update[i] + residual[i]);
    const uint32_t code = bf16_half_even(c);
    store_bf16(out.codes, i, code);
    residual[i] = flushed(c - bf16_to_float(code));
  }
}

}  // namespace

constinit const BlockCoder block_coder_bf16 = {
    .info = {CodecId::kBf16, "bf16", 16.0, "nearly exact: warm-up, or where 8 bits are refused",
             true},
    .scale_bytes = 0,
    .code_bytes = kBlockElements * 2,
    .takes_narrow = true,
    .rotated = false,
    .encode = encode,
    .verify = verify_values<Bf16>,
    .add = add_values<Bf16>,
    .sum = sum_values<Bf16>,
    .norm_squared = values_norm_squared<Bf16>,
};

}  // namespace paceline
