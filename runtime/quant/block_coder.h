// What one codec does with blocks; payload.h puts the blocks of a chunk into one payload.
//
// A codec is one file, codec_<name>.cpp, that defines block_coder_<name>, and one line in
// codecs.inc. The functions are pure: same arguments, same bytes, on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

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

// Where they stand in a payload. Any alignment; scales are null for codecs without.
struct CodedBytes {
  const unsigned char* scales = nullptr;
  const unsigned char* codes = nullptr;
};
struct CodedOutput {
  unsigned char* scales = nullptr;
  unsigned char* codes = nullptr;
};

struct BlockCoder {
  CodecInfo info;
  uint32_t scale_bytes;  // a block: 0 or 2
  uint32_t code_bytes;   // a block
  bool takes_narrow;     // false: narrow blocks (parameter_layout.h) ride as Q8
  bool rotated;          // sums are taken in the rotated domain of S1R

  // Encodes c = update + residual, leaves c - decoded in `residual`. All |c| < 2^119, pads +0.
  void (*encode)(const CodedBlocks& blocks, const float* update, float* residual,
                 const CodedOutput& out);

  // Errors: kCorrupt unless encode() could have written these scales and codes.
  Status (*verify)(const CodedBlocks& blocks, const CodedBytes& in);

  // into = flush(into + decoded).
  void (*add)(const CodedBlocks& blocks, const CodedBytes& in, float* into);

  // acc += each term's weight * code for one block, in the order given.
  void (*sum)(std::span<const BlockTerm> terms, float* acc);

  // Sum of decoded^2, in block order.
  double (*norm_squared)(const CodedBlocks& blocks, const CodedBytes& in);
};

const BlockCoder& block_coder(CodecId id);

// The coder of a chunk's wide or narrow blocks when the payload's header names `id`.
const BlockCoder& block_coder(CodecId id, bool wide);

// Where `id` stands in codecs.inc: an index below kCodecCount.
size_t codec_position(CodecId id);

inline constexpr size_t kCodecCount = 0
#define CODEC(id, enumerator, name) +1
#include "runtime/quant/codecs.inc"
#undef CODEC
    ;

#define CODEC(id, enumerator, name) extern const BlockCoder block_coder_##name;
#include "runtime/quant/codecs.inc"
#undef CODEC

// For codecs with scales. Errors: kCorrupt unless every scale is +0 or a bf16 number in [2^-90,
// max], and blocks of scale +0 have only zero codes.
Status verify_scales(const CodedBlocks& blocks, const CodedBytes& in, size_t code_bytes, float max);

}  // namespace paceline
