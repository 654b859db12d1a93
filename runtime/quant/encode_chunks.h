// Walks an update's chunks and the parts of each, frames what the coders write, and joins the
// checksums. Shared by updates, which go up, and publications, which go down.
#pragma once

#include <cstring>

#include "runtime/base/checksum.h"
#include "runtime/quant/payload.h"

namespace paceline {

// Encodes one chunk into `out` and returns its checksum. encode_part(part, coder, blocks, output)
// fills the scales and codes of each part.
template <class EncodePart>
uint32_t encode_chunk(const ParameterLayout& layout, const PayloadHeader& header, uint64_t seed,
                      Bytes* out, EncodePart encode_part) {
  const PayloadShape shape = payload_shape(layout, header.range, header.codec);
  out->resize(shape.bytes + shape.entry_bytes_max);
  auto* bytes = reinterpret_cast<unsigned char*>(out->data());
  if (shape.ranges_begin < shape.bytes) std::memset(bytes + shape.ranges_begin, 0, 2);
  PayloadOffsets at(shape, header.codec);
  for (ChunkParts part(layout, header.range); part.next(); at.pass(*part)) {
    const CodedBlocks blocks{
        part->first_block, part->block_count, part->element_count, {seed, header.round}};
    encode_part(*part, at.coder(*part), blocks, at.coded<CodedOutput>(*part, bytes));
  }
  out->resize(payload_bytes(shape, *out));
  return seal_payload(header, shape, *out);
}

// encode_part(chunk, part, coder, blocks, output), in order.
template <class EncodePart>
void encode_chunks(const ParameterLayout& layout, CodecId codec, bool delta, RotationKey rotation,
                   EncodedUpdate* out, EncodePart encode_part) {
  out->codec = codec;
  out->chunks.resize(layout.chunk_count());
  out->checksum = 0;
  for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const PayloadHeader header{codec, delta, layout.chunk(chunk), rotation.key};
    Bytes& bytes = out->chunks[chunk];
    const uint32_t checksum =
        encode_chunk(layout, header, rotation.seed, &bytes,
                     [&](const ChunkPart& part, const BlockCoder& coder, const CodedBlocks& blocks,
                         const CodedOutput& to) { encode_part(chunk, part, coder, blocks, to); });
    out->checksum = crc32c_join(out->checksum, checksum, bytes.size());
  }
}

// Pads come from nowhere but a broken caller.
bool pads_are_zero(const ParameterLayout& layout, std::span<const float> values);

// What an encoder says of values that are not finite or too large.
Status out_of_range(const char* what);

}  // namespace paceline
