// Q4R: Q4 of the randomly rotated block, y = H(D c) / 16; rotation.h has D, codec_s1r.cpp the
// source. A few large elements, which would leave the others of their block few steps of a common
// scale, are spread over it first.
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/q4_blocks.h"
#include "runtime/quant/rotated_blocks.h"

namespace paceline {

namespace {

// |y| < 16 * 2^119.
constexpr float kScaleMax = 0x1p121f;
// Up to it 256 codes of 7 have an inverse that is finite.
constexpr float kScaleSafe = 0x1p117f;

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  encode_rotated(kernels().encode_q4r, kQ4CodeBytes, blocks, update, residual, out);
}

// An encoder's codes under a larger scale are few or small; others would decode to infinity.
Status verify(const CodedBlocks& blocks, const CodedBytes& in) {
  PACELINE_TRY(verify_q4(blocks, in, kScaleMax));
  for (size_t block = 0; block < blocks.block_count; ++block) {
    const float scale = bf16_to_float(load_bf16(in.scales, block));
    if (scale <= kScaleSafe) continue;
    const double total = q4_total(in.codes + block * kQ4CodeBytes).magnitudes;
    if (total * scale >= 0x1p128)
      return fail(Code::kCorrupt, "block %zu: codes too large for the scale 0x%04x",
                  blocks.first_block + block, load_bf16(in.scales, block));
  }
  return {};
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  add_rotated(kernels().add_q4r, kQ4CodeBytes, blocks, in, into);
}

void sum(std::span<const BlockTerm> terms, float* acc) { block_coder_q4.sum(terms, acc); }

double norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  return block_coder_q4.norm_squared(blocks, in);
}

}  // namespace

constinit const BlockCoder block_coder_q4r = {
    .info = {CodecId::kQ4r, "q4r", 4.0625, "four bits, rotated: where few values are large", true,
             0.02},
    .scale_bytes = 2,
    .code_bytes = kQ4CodeBytes,
    .takes_narrow = false,
    .rotated = true,
    .entry_bytes_max = 0,
    .encode = encode,
    .verify = verify,
    .add = add,
    .sum = sum,
    .norm_squared = norm_squared,
};

}  // namespace paceline
