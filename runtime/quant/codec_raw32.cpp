// RAW32: the float32 values themselves. Key frames, tests, and the yardstick for the others.
#include <algorithm>
#include <cstring>

#include "runtime/quant/value_blocks.h"

namespace paceline {

namespace {

struct Raw32 {
  static constexpr float kMax = 0x1.fffffep118f;  // the largest below 2^119
  static float load(const unsigned char* codes, size_t i) {
    float value;
    std::memcpy(&value, codes + i * sizeof value, sizeof value);
    return value;
  }
};

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  for (size_t at = 0; at < element_total(blocks); at += kBlockElements) {
    float c[kBlockElements];
    for (size_t i = 0; i < kBlockElements; ++i)
      c[i] = flushed(residual == nullptr ? update[at + i] : update[at + i] + residual[at + i]);
    std::memcpy(out.codes + at * sizeof(float), c, sizeof c);
  }
  if (residual != nullptr) std::fill_n(residual, element_total(blocks), 0.0f);
}

}  // namespace

constinit const BlockCoder block_coder_raw32 = {
    .info = {CodecId::kRaw32, "raw32", 32.0, "exact: tests, tiny models, key frames", false, 0},
    .scale_bytes = 0,
    .code_bytes = kBlockElements * 4,
    .takes_narrow = true,
    .rotated = false,
    .entry_bytes_max = 0,
    .encode = encode,
    .verify = verify_values<Raw32>,
    .add = add_values<Raw32>,
    .sum = sum_values<Raw32>,
    .norm_squared = values_norm_squared<Raw32>,
};

}  // namespace paceline
