// What S1R and Q4R share: blocks that a kernel codes after the rotation of rotation.h.
#pragma once

#include <algorithm>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/rotation.h"

namespace paceline {

// Calls visit(first, count, signs) for slices of blocks whose signs fit on the stack.
template <class Visit>
void for_rotated_slices(const CodedBlocks& blocks, Visit visit) {
  constexpr size_t kSliceBlocks = 16;
  uint64_t signs[kSliceBlocks * kSignWords];
  for (size_t first = 0; first < blocks.block_count; first += kSliceBlocks) {
    const size_t count = std::min<size_t>(kSliceBlocks, blocks.block_count - first);
    for (size_t i = 0; i < count; ++i)
      rotation_signs(blocks.rotation, blocks.first_block + first + i, signs + i * kSignWords);
    visit(first, count, signs);
  }
}

inline void encode_rotated(decltype(KernelSet::encode_s1r) kernel, size_t code_bytes,
                           const CodedBlocks& blocks, const float* update, float* residual,
                           const CodedOutput& out) {
  for_rotated_slices(blocks, [&](size_t first, size_t count, const uint64_t* signs) {
    const size_t element = first * kBlockElements;
    kernel(update + element, residual == nullptr ? nullptr : residual + element, signs, count,
           out.scales + first * 2, out.codes + first * code_bytes);
  });
}

inline void add_rotated(decltype(KernelSet::add_s1r) kernel, size_t code_bytes,
                        const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  for_rotated_slices(blocks, [&](size_t first, size_t count, const uint64_t* signs) {
    kernel(in.scales + first * 2, in.codes + first * code_bytes, signs, count,
           into + first * kBlockElements);
  });
}

}  // namespace paceline
