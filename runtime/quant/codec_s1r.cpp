// S1R: S1 of the randomly rotated block, y = H(D c) / 16; rotation.h has D.
//
// The rotation is the one of DRIVE (Vargaftik et al., NeurIPS 2021) on blocks of 256; we keep S1's
// scale, which with error feedback needs no unbiasedness. H / 16 is its own inverse, and 1/16 is
// exact. Sums of many workers are taken of y, so a block costs one inverse whatever their number.
#include <algorithm>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/rotation.h"

namespace paceline {

namespace {

constexpr uint32_t kCodeBytes = kBlockElements / 8;
constexpr size_t kSliceBlocks = 16;

// Calls visit(first, count, signs) for slices of blocks whose signs fit on the stack.
template <class Visit>
void for_slices(const CodedBlocks& blocks, Visit visit) {
  uint64_t signs[kSliceBlocks * kSignWords];
  for (size_t first = 0; first < blocks.block_count; first += kSliceBlocks) {
    const size_t count = std::min<size_t>(kSliceBlocks, blocks.block_count - first);
    for (size_t i = 0; i < count; ++i)
      rotation_signs(blocks.rotation, blocks.first_block + first + i, signs + i * kSignWords);
    visit(first, count, signs);
  }
}

void encode(const CodedBlocks& blocks, const float* update, float* residual,
            const CodedOutput& out) {
  for_slices(blocks, [&](size_t first, size_t count, const uint64_t* signs) {
    const size_t element = first * kBlockElements;
    kernels().encode_s1r(update + element, residual + element, signs, count, out.scales + first * 2,
                         out.codes + first * kCodeBytes);
  });
}

void add(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  for_slices(blocks, [&](size_t first, size_t count, const uint64_t* signs) {
    kernels().add_s1r(in.scales + first * 2, in.codes + first * kCodeBytes, signs, count,
                      into + first * kBlockElements);
  });
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
    .info = {CodecId::kS1r, "s1r", 1.0625, "one bit, rotated: thin links, both ways", true},
    .scale_bytes = 2,
    .code_bytes = kCodeBytes,
    .takes_narrow = false,
    .rotated = true,
    .encode = encode,
    .verify = verify,
    .add = add,
    .sum = sum,
    .norm_squared = norm_squared,
};

}  // namespace paceline
