// An independent reading of payloads: straight from docs/wire_format.md, element by
// element, sharing nothing with the product but the layout and the random generator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/quant/codec.h"

namespace paceline::test {

template <class T>
T read_at(ByteSpan bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// What a block of a payload says: `scale` (1 for codecs without) times a number per element, in the
// rotated domain where `rotated`.
struct ReferenceBlock {
  bool rotated = false;
  float scale = 1;
  std::vector<float> codes;
};

// The blocks of a chunk's payload, in order.
inline std::vector<ReferenceBlock> reference_blocks(const ParameterLayout& layout, uint32_t chunk,
                                                    ByteSpan bytes) {
  const ChunkRange range = layout.chunk(chunk);
  const auto codec = static_cast<CodecId>(bytes[3]);
  const bool one_bit = codec == CodecId::kS1 || codec == CodecId::kS1r;
  std::vector<bool> wide(layout.block_count());
  for (const BlockRun& run : layout.runs())
    for (uint32_t b = 0; b < run.block_count; ++b) wide[run.first_block + b] = run.wide;

  const bool scales = codec != CodecId::kRaw32 && codec != CodecId::kBf16;
  size_t scale_at = 32;
  size_t code_at = (32 + (scales ? 2 * size_t{range.block_count} : 0) + 63) / 64 * 64;
  std::vector<ReferenceBlock> blocks(range.block_count);
  for (uint32_t b = 0; b < range.block_count; ++b) {
    ReferenceBlock& block = blocks[b];
    block.codes.resize(256);
    if (scales) {
      block.scale = from_bf16(read_at<uint16_t>(bytes, scale_at));
      scale_at += 2;
    }
    const bool bits = one_bit && wide[range.first_block + b];
    block.rotated = bits && codec == CodecId::kS1r;
    for (size_t i = 0; i < 256; ++i) {
      if (bits)
        block.codes[i] = (read_at<uint8_t>(bytes, code_at + i / 8) >> (i % 8) & 1) ? -1.0f : 1.0f;
      else if (codec == CodecId::kRaw32)
        block.codes[i] = read_at<float>(bytes, code_at + 4 * i);
      else if (codec == CodecId::kBf16)
        block.codes[i] = from_bf16(read_at<uint16_t>(bytes, code_at + 2 * i));
      else
        block.codes[i] = read_at<int8_t>(bytes, code_at + i);
    }
    code_at += bits ? 32 : codec == CodecId::kRaw32 ? 1024 : codec == CodecId::kBf16 ? 512 : 256;
  }
  return blocks;
}

// D H(values) / 16 of one block, float32 stage by stage.
inline void reference_unrotate(uint64_t seed, uint64_t key, uint64_t block, float* values) {
  for (size_t h = 1; h < 256; h *= 2) {
    std::vector<float> next(256);
    for (size_t i = 0; i < 256; ++i)
      next[i] = (i & h) == 0 ? values[i] + values[i + h] : values[i - h] - values[i];
    std::copy(next.begin(), next.end(), values);
  }
  uint64_t state = seed ^ (key * 0x9E3779B97F4A7C15ull) ^ (block * 0xBF58476D1CE4E5B9ull);
  for (size_t word = 0; word < 4; ++word) {
    const uint64_t signs = splitmix64(state);
    for (size_t i = 0; i < 64; ++i) {
      float& value = values[64 * word + i];
      value = value * 0.0625f * ((signs >> i & 1) != 0 ? -1.0f : 1.0f);
    }
  }
}

// The decoded values of the whole flat vector.
inline std::vector<float> reference_decode(const ParameterLayout& layout,
                                           const EncodedUpdate& encoded, RotationKey rotation) {
  std::vector<float> values(layout.element_count());
  for (uint32_t chunk = 0; chunk < encoded.chunks.size(); ++chunk) {
    const std::vector<ReferenceBlock> blocks =
        reference_blocks(layout, chunk, encoded.chunks[chunk]);
    const uint32_t first = layout.chunk(chunk).first_block;
    for (uint32_t b = 0; b < blocks.size(); ++b) {
      float* to = values.data() + size_t{first + b} * 256;
      for (size_t i = 0; i < 256; ++i) to[i] = blocks[b].scale * blocks[b].codes[i];
      if (blocks[b].rotated) reference_unrotate(rotation.seed, rotation.key, first + b, to);
    }
  }
  return values;
}

inline float reference_flush(float value) { return std::fabs(value) < 0x1p-90f ? 0.0f : value; }

}  // namespace paceline::test
