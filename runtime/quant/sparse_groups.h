// What TK1 and TK5 share: of each group of 4,096 elements the largest few, with their places.
//
// Top-k with error feedback: Stich, Cordonnier, Jaggi, NeurIPS 2018; by groups, so that a group is
// selected while it is in the first-level cache. A group has one bf16 scale, that of Q8, and its
// entries in ascending order: the number of elements since the last entry, as a byte (255: skip 255
// and read on), then a Q8 code. A value whose code would be 0 has no entry.
#pragma once

#include <cstdint>

#include "runtime/quant/block_coder.h"

namespace paceline {

// Entries of a group of so many blocks: the share of its elements, rounded up.
constexpr uint32_t sparse_entries_max(uint32_t blocks, uint32_t percent) {
  return (blocks * kBlockElements * percent + 99) / 100;
}

// Two bytes an entry, and the skips of the longest gaps.
constexpr uint32_t sparse_entry_bytes_max(uint32_t percent) {
  return 2 * sparse_entries_max(kSparseGroupBlocks, percent) +
         kSparseGroupBlocks * kBlockElements / 255;
}

void encode_sparse(const CodedBlocks& blocks, uint32_t percent, const float* update,
                   float* residual, const CodedOutput& out);
Status verify_sparse(const CodedBlocks& blocks, uint32_t percent, const CodedBytes& in);
void add_sparse(const CodedBlocks& blocks, const CodedBytes& in, float* into);
void sum_sparse(std::span<const BlockTerm> terms, float* acc);
double sparse_norm_squared(const CodedBlocks& blocks, const CodedBytes& in);

template <uint32_t kPercent>
constexpr BlockCoder sparse_coder(CodecInfo info) {
  return {
      .info = info,
      .scale_bytes = 2,
      .code_bytes = 0,
      .takes_narrow = false,
      .rotated = false,
      .entry_bytes_max = sparse_entry_bytes_max(kPercent),
      .encode =
          [](const CodedBlocks& blocks, const float* update, float* residual,
             const CodedOutput& out) { encode_sparse(blocks, kPercent, update, residual, out); },
      .verify = [](const CodedBlocks& blocks,
                   const CodedBytes& in) { return verify_sparse(blocks, kPercent, in); },
      .add = add_sparse,
      .sum = sum_sparse,
      .norm_squared = sparse_norm_squared,
  };
}

}  // namespace paceline
