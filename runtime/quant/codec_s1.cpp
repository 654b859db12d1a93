// S1: a bf16 scale per block, the mean magnitude, and one sign bit per element.
//
// Scaled sign with error feedback: Karimireddy et al., arXiv 1901.09847; by blocks as in
// dist-EF-SGD (Zheng, Huang, Kwok, NeurIPS 2019). It needs its residual, and momentum on the
// worker.
#include "runtime/quant/block_coder.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

namespace {

constexpr float kScaleMax = 0x1p119f;
constexpr uint32_t kCodeBytes = kBlockElements / 8;

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  kernels().encode_s1(update, residual, blocks.block_count, out.scales, out.codes);
}

Status verify(const CodedBlocks& blocks, const CodedBytes& in) {
  return verify_scales(blocks, in, kCodeBytes, kScaleMax);
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  kernels().add_s1(in.scales, in.codes, blocks.block_count, into);
}

void sum(std::span<const BlockTerm> terms, float* acc) {
  kernels().sum_s1(terms.data(), terms.size(), acc);
}

double norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  double total = 0;
  for (size_t block = 0; block < blocks.block_count; ++block) {
    const double scale = bf16_to_float(load_bf16(in.scales, block));
    total += kBlockElements * (scale * scale);
  }
  return total;
}

}  // namespace

constinit const BlockCoder block_coder_s1 = {
    .info = {CodecId::kS1, "s1", 1.0625, "one bit, cheapest to compute", true, 0.33,
             "its error stays in everybody's model; use s1r or q8"},
    .scale_bytes = 2,
    .code_bytes = kCodeBytes,
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
