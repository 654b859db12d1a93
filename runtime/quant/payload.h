// The frame of one payload: a header, the scales, the codes. docs/wire_format.md is the
// text for people.
//
//   0   magic        u16   'P' 'Q'
//   2   version      u8    1
//   3   codec        u8    wire id of the wide blocks' codec
//   4   flags        u16   bit 0 error feedback, bit 2 delta; bit 1 and the rest are 0
//   6   block_log2   u8    8
//   7   zero         u8
//   8   first_block  u32
//   12  block_count  u32
//   16  round        u64   the rotation key
//   24  crc32c       u32   over the whole payload, with these four bytes 0
//   28  zero         u32
//   32  scales             u16 for each block whose coder has one, in block order, wide and narrow
//                          mixed as they lie; then zeros up to a multiple of 64 bytes from the
//                          header's first byte
//       codes              of each block, in block order, without gaps; their lengths follow from
//                          the layout and the codec alone, so every offset is a prefix sum
//       ranges             u16, sparse codecs only: where each group's entries end, after a 0
//       entries            of each group, in order
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/codec.h"

namespace paceline {

inline constexpr size_t kPayloadHeaderBytes = 32;

// One legal header; what is not here is constant.
struct PayloadHeader {
  CodecId codec = CodecId::kRaw32;
  bool delta = true;  // false: RAW32 values that replace the receiver's
  ChunkRange range;
  uint64_t round = 0;
};

// Where things stand in a payload, and its length: exact, or without a sparse codec's entries.
struct PayloadShape {
  size_t scales_end = 0;
  size_t codes_begin = 0;
  size_t ranges_begin = 0;
  size_t bytes = 0;
  size_t entry_bytes_max = 0;
};
PayloadShape payload_shape(const ParameterLayout& layout, ChunkRange range, CodecId codec);

// The exact length of a payload that has at least shape.bytes: with what its last range says.
size_t payload_bytes(const PayloadShape& shape, ByteSpan payload);

// Writes the header, the padding and the checksum around the scales and codes that stand in
// `payload`. Returns the checksum of the whole, as it is then; the bytes are read once.
uint32_t seal_payload(const PayloadHeader& header, const PayloadShape& shape,
                      std::span<std::byte> payload);

// Blocks of one run that lie in one chunk.
struct ChunkPart {
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  uint32_t element_count = 0;  // without pads
  bool wide = false;
};

// Walks the parts of a chunk in block order: for (ChunkParts part(layout, range); part.next();) ...
class ChunkParts {
 public:
  ChunkParts(const ParameterLayout& layout, ChunkRange range);
  bool next();
  const ChunkPart& operator*() const { return part_; }
  const ChunkPart* operator->() const { return &part_; }

 private:
  std::span<const BlockRun> rest_;
  ChunkRange range_;
  ChunkPart part_;
};

// Where the scales and codes of successive parts stand, for one codec.
class PayloadOffsets {
 public:
  PayloadOffsets() = default;
  PayloadOffsets(const PayloadShape& shape, CodecId codec)
      : codec_(codec),
        codes_(shape.codes_begin),
        ranges_(shape.ranges_begin),
        entries_(shape.bytes) {}
  const BlockCoder& coder(const ChunkPart& part) const { return block_coder(codec_, part.wide); }
  size_t scales() const { return scales_; }
  size_t codes() const { return codes_; }
  // Of a part whose coder is sparse.
  size_t ranges() const { return ranges_; }
  size_t entries() const { return entries_; }
  void pass(const ChunkPart& part) {
    const BlockCoder& coder = this->coder(part);
    scales_ += coder.scale_bytes_of(part.block_count);
    codes_ += size_t{part.block_count} * coder.code_bytes;
    if (coder.sparse()) ranges_ += BlockCoder::sparse_groups(part.block_count) * sizeof(uint16_t);
  }

  // What a coder is given of a payload for the part: CodedBytes, or CodedOutput where it writes.
  template <class Coded, class Byte>
  Coded coded(const ChunkPart& part, Byte* payload) const {
    if (coder(part).sparse()) return {payload + scales_, payload + entries_, payload + ranges_};
    return {payload + scales_, payload + codes_};
  }

 private:
  CodecId codec_ = CodecId::kRaw32;
  size_t scales_ = kPayloadHeaderBytes;
  size_t codes_ = 0;
  size_t ranges_ = 0;
  size_t entries_ = 0;
};

// The inside of a PayloadView, for this folder.
struct PayloadAccess {
  static const unsigned char* bytes(const PayloadView& view) {
    return reinterpret_cast<const unsigned char*>(view.bytes_.data());
  }
  static bool absolute(const PayloadView& view) { return view.absolute_; }
  static PayloadView make(const PayloadHeader& header, uint32_t chunk, ByteSpan bytes);
};

// Calls visit(coder, blocks, bytes, element) for each part of a payload; `element` is the part's
// first element in the flat vector.
template <class Visit>
void for_each_part(const ParameterLayout& layout, const PayloadView& view, uint64_t seed,
                   Visit visit) {
  const ChunkRange range = layout.chunk(view.chunk());
  const unsigned char* bytes = PayloadAccess::bytes(view);
  PayloadOffsets at(payload_shape(layout, range, view.codec()), view.codec());
  for (ChunkParts part(layout, range); part.next(); at.pass(*part)) {
    const CodedBlocks blocks{
        part->first_block, part->block_count, part->element_count, {seed, view.key()}};
    visit(at.coder(*part), blocks, at.coded<CodedBytes>(*part, bytes),
          size_t{part->first_block} * kBlockElements);
  }
}

}  // namespace paceline
