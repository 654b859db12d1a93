// Q4: a bf16 scale per block and four bits per element, -7 to 7.
//
// Q8 with fewer codes: the scale is the largest magnitude through 7, rounded up, so nothing is
// clipped, and code * scale is exact in float32.
#include "runtime/quant/q4_blocks.h"

#include <algorithm>

#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

namespace {

// Of a block whose largest magnitude is just below 2^119, with room to the next power of two.
constexpr float kScaleMax = 0x1p117f;

int32_t low_code(unsigned char byte) { return ((byte & 0xF) ^ 8) - 8; }
int32_t high_code(unsigned char byte) { return ((byte >> 4) ^ 8) - 8; }

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  kernels().encode_q4(update, residual, blocks.block_count, out.scales, out.codes);
}

Status verify(const CodedBlocks& blocks, const CodedBytes& in) {
  return verify_q4(blocks, in, kScaleMax);
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  kernels().add_q4(in.scales, in.codes, blocks.block_count, into);
}

void sum(std::span<const BlockTerm> terms, float* acc) {
  kernels().sum_q4(terms.data(), terms.size(), acc);
}

double norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  double total = 0;
  for (size_t block = 0; block < blocks.block_count; ++block) {
    const double scale = bf16_to_float(load_bf16(in.scales, block));
    total += scale * scale * q4_total(in.codes + block * kQ4CodeBytes).squares;
  }
  return total;
}

}  // namespace

Status verify_q4(const CodedBlocks& blocks, const CodedBytes& in, float scale_max) {
  PACELINE_TRY(verify_scales(blocks, in, kQ4CodeBytes, scale_max));
  const unsigned char* end = in.codes + size_t{blocks.block_count} * kQ4CodeBytes;
  const unsigned char* bad = std::find_if(in.codes, end, [](unsigned char byte) {
    return (byte & 0x0F) == 0x08 || (byte & 0xF0) == 0x80;
  });
  if (bad == end) return {};
  return fail(Code::kCorrupt, "block %zu: code -8",
              blocks.first_block + static_cast<size_t>(bad - in.codes) / kQ4CodeBytes);
}

Q4Total q4_total(const unsigned char* codes) {
  Q4Total total;
  for (size_t i = 0; i < kQ4CodeBytes; ++i)
    for (const int32_t code : {low_code(codes[i]), high_code(codes[i])}) {
      total.squares += static_cast<uint32_t>(code * code);
      total.magnitudes += static_cast<uint32_t>(code < 0 ? -code : code);
    }
  return total;
}

constinit const BlockCoder block_coder_q4 = {
    .info = {CodecId::kQ4, "q4", 4.0625, "four bits: half of q8's bytes, cheap to compute", true,
             0.02},
    .scale_bytes = 2,
    .code_bytes = kQ4CodeBytes,
    .takes_narrow = false,
    .rotated = false,
    .entry_bytes_max = 0,
    .encode = encode,
    .verify = verify,
    .add = add,
    .sum = sum,
    .norm_squared = norm_squared,
};

}  // namespace paceline
