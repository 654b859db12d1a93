// Q8: a bf16 scale per block and one signed byte per element, -127 to 127.
//
// Block absmax as in 8-bit optimizers (Dettmers et al., arXiv 2110.02861), linear instead of
// dynamic codes. The scale is rounded up, so nothing is clipped; a scale has 8 significant bits and
// a code 7, so code * scale is exact in float32 and the residual is what was lost, to the bit.
#include <algorithm>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

namespace {

// Of a block whose largest magnitude is just below 2^119, with room to the next power of two.
constexpr float kScaleMax = 0x1p113f;

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  kernels().encode_q8(update, residual, blocks.block_count, out.scales, out.codes);
}

Status verify(const CodedBlocks& blocks, const CodedBytes& in) {
  PACELINE_TRY(verify_scales(blocks, in, kBlockElements, kScaleMax));
  const size_t count = size_t{blocks.block_count} * kBlockElements;
  const unsigned char* end = in.codes + count;
  if (const unsigned char* bad = std::find(in.codes, end, 0x80); bad != end)
    return fail(Code::kCorrupt, "block %zu: code -128",
                blocks.first_block + static_cast<size_t>(bad - in.codes) / kBlockElements);
  if (std::any_of(in.codes + blocks.element_count, end,
                  [](unsigned char code) { return code != 0; }))
    return fail(Code::kCorrupt, "block %u: a pad's code is not 0",
                blocks.first_block + blocks.block_count - 1);
  return {};
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  kernels().add_q8(in.scales, in.codes, blocks.block_count, into);
}

void sum(std::span<const BlockTerm> terms, float* acc) {
  kernels().sum_q8(terms.data(), terms.size(), acc);
}

double norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  double total = 0;
  for (size_t block = 0; block < blocks.block_count; ++block) {
    const unsigned char* codes = in.codes + block * kBlockElements;
    int32_t squares = 0;
    for (size_t i = 0; i < kBlockElements; ++i) {
      const int32_t code = static_cast<int8_t>(codes[i]);
      squares += code * code;
    }
    const double scale = bf16_to_float(load_bf16(in.scales, block));
    total += scale * scale * squares;
  }
  return total;
}

}  // namespace

constinit const BlockCoder block_coder_q8 = {
    .info = {CodecId::kQ8, "q8", 8.0625, "as good as float32 for a quarter of its bytes", true,
             1e-4},
    .scale_bytes = 2,
    .code_bytes = kBlockElements,
    .takes_narrow = true,
    .rotated = false,
    .entry_bytes_max = 0,
    .encode = encode,
    .verify = verify,
    .add = add,
    .sum = sum,
    .norm_squared = norm_squared,
    .close = &KernelSet::close_q8,
};

}  // namespace paceline
