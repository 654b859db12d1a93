// S1R: S1 of the randomly rotated block, y = H(D c) / 16; rotation.h has D.
//
// The rotation is the one of DRIVE (Vargaftik et al., NeurIPS 2021) on blocks of 256; we keep S1's
// scale, which with error feedback needs no unbiasedness. H / 16 is its own inverse, and 1/16 is
// exact. Sums of many workers are taken of y, so a block costs one inverse whatever their number.
#include "runtime/quant/dispatch.h"
#include "runtime/quant/rotated_blocks.h"

namespace paceline {

namespace {

constexpr uint32_t kCodeBytes = kBlockElements / 8;

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  encode_rotated(kernels().encode_s1r, kCodeBytes, blocks, update, residual, out);
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  add_rotated(kernels().add_s1r, kCodeBytes, blocks, in, into);
}

// In the rotated domain: what travels is S1, legal and long as S1 is.
Status verify(const CodedBlocks& blocks, const CodedBytes& in) {
  return block_coder_s1.verify(blocks, in);
}

void sum(std::span<const BlockTerm> terms, float* acc) { block_coder_s1.sum(terms, acc); }

double norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  return block_coder_s1.norm_squared(blocks, in);
}

}  // namespace

constinit const BlockCoder block_coder_s1r = {
    .info = {CodecId::kS1r, "s1r", 1.0625, "one bit, rotated: thin links", true, 0.33},
    .scale_bytes = 2,
    .code_bytes = kCodeBytes,
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
