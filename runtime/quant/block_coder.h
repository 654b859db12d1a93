// What one codec does with blocks; payload.h puts the blocks of a chunk into one payload.
//
// A codec is one file, codec_<name>.cpp, that defines block_coder_<name>, and one line in
// codecs.inc. The functions are pure: same arguments, same bytes, on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/check.h"
#include "runtime/base/status.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/kernels.h"

namespace paceline {

// Consecutive blocks that are coded alike.
struct CodedBlocks {
  uint32_t first_block = 0;  // in the whole flat vector
  uint32_t block_count = 0;
  uint32_t element_count = 0;  // without pads, which only end the last block
  RotationKey rotation;
};

// Blocks that a sparse codec codes as one group; the last group of CodedBlocks may be shorter.
inline constexpr uint32_t kSparseGroupBlocks = 16;

// Where they stand in a payload. Any alignment; what a codec does not have is null. A sparse codec
// has no codes but entries, all of the payload's, and `ranges` points at the first group's.
struct CodedBytes {
  const unsigned char* scales = nullptr;
  const unsigned char* codes = nullptr;
  const unsigned char* ranges = nullptr;
};
struct CodedOutput {
  unsigned char* scales = nullptr;
  unsigned char* codes = nullptr;
  unsigned char* ranges = nullptr;
};

// Which bytes among a payload's entries are one group's. A payload with n groups has n + 1 numbers
// (u16), the first one 0; group i ends where group i + 1 begins.
struct EntryRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};
EntryRange entry_range(const unsigned char* ranges, size_t group);

struct BlockCoder {
  CodecInfo info;
  uint32_t scale_bytes;      // a block, or a sparse codec's group: 0 or 2
  uint32_t code_bytes;       // a block; 0 for a sparse codec
  bool takes_narrow;         // false: narrow blocks (parameter_layout.h) ride as Q8
  bool rotated;              // sums are taken in the rotated domain of S1R
  uint32_t entry_bytes_max;  // a group; 0 if the codec is not sparse

  bool sparse() const { return entry_bytes_max > 0; }
  // Of so many blocks.
  size_t scale_bytes_of(size_t blocks) const {
    return scale_bytes * (sparse() ? sparse_groups(blocks) : blocks);
  }
  static size_t sparse_groups(size_t blocks) {
    return (blocks + kSparseGroupBlocks - 1) / kSparseGroupBlocks;
  }

  // Encodes c = update + residual, leaves c - decoded in `residual`. All |c| < 2^119, pads +0.
  // `residual` may be null: then c = update, and what is lost is not kept. A sparse codec goes on
  // where the first group's range begins and sets where each group ends.
  void (*encode)(const CodedBlocks& blocks, const float* update, float* residual,
                 const CodedOutput& out);

  // Errors: kCorrupt unless encode() could have written these scales and codes.
  Status (*verify)(const CodedBlocks& blocks, const CodedBytes& in);

  // into = flush(into + decoded); where a sparse codec has no entry, nothing is touched.
  void (*add)(const CodedBlocks& blocks, const CodedBytes& in, float* into);

  // acc += each term's weight * code for one block, or for one group of a sparse codec, in the
  // order given.
  void (*sum)(std::span<const BlockTerm> terms, float* acc);

  // Sum of decoded^2, in block order.
  double (*norm_squared)(const CodedBlocks& blocks, const CodedBytes& in);

  // The kernel that takes all steps of a close in one go; null if there is none, and a kernel set
  // may leave it out.
  decltype(KernelSet::close_q8) KernelSet::*close = nullptr;
};

const BlockCoder& block_coder(CodecId id);

// The coder of a chunk's wide or narrow blocks when the payload's header names `id`.
const BlockCoder& block_coder(CodecId id, bool wide);

inline constexpr std::array kCodecIds = {
#define CODEC(id, enumerator, name) uint8_t{id},
#include "runtime/quant/codecs.inc"
#undef CODEC
};
inline constexpr size_t kCodecCount = kCodecIds.size();

// Where each wire id stands in codecs.inc; kCodecCount: nowhere. A table, because a sum asks for
// every worker's block.
inline constexpr auto kCodecPositions = [] {
  std::array<uint8_t, 256> positions{};
  positions.fill(kCodecCount);
  for (size_t i = 0; i < kCodecCount; ++i) positions[kCodecIds[i]] = static_cast<uint8_t>(i);
  return positions;
}();
inline size_t codec_position(CodecId id) {
  const size_t position = kCodecPositions[static_cast<uint8_t>(id)];
  PACELINE_CHECK(position < kCodecCount);
  return position;
}

#define CODEC(id, enumerator, name) extern const BlockCoder block_coder_##name;
#include "runtime/quant/codecs.inc"
#undef CODEC

// Whether `scale`, the bits of a bf16 number, is +0 or in [2^-90, max]; what to say if not.
bool scale_is_legal(uint32_t scale, float max);
Status illegal_scale(size_t block, uint32_t scale);

// For codecs with a scale and codes for each block. Errors: kCorrupt unless every scale is legal
// and blocks of scale +0 have only zero codes.
Status verify_scales(const CodedBlocks& blocks, const CodedBytes& in, size_t code_bytes, float max);

}  // namespace paceline
