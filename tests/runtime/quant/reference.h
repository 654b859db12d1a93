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

// Which blocks of a chunk are wide, and where among them a group of a sparse codec begins.
struct ReferencePlace {
  bool wide = false;
  bool group = false;
};
inline std::vector<ReferencePlace> reference_places(const ParameterLayout& layout,
                                                    ChunkRange range) {
  std::vector<ReferencePlace> places(range.block_count);
  for (const BlockRun& run : layout.runs()) {
    uint32_t in_chunk = 0;
    for (uint32_t b = run.first_block; b < run.first_block + run.block_count; ++b)
      if (b >= range.first_block && b < range.first_block + range.block_count)
        places[b - range.first_block] = {run.wide, run.wide && in_chunk++ % 16 == 0};
  }
  return places;
}

// Codes of one block that are not sparse; returns how many bytes they have.
inline size_t reference_codes(CodecId codec, ByteSpan bytes, size_t at, std::vector<float>* codes) {
  for (size_t i = 0; i < 256; ++i) switch (codec) {
      case CodecId::kRaw32:
        (*codes)[i] = read_at<float>(bytes, at + 4 * i);
        break;
      case CodecId::kBf16:
        (*codes)[i] = from_bf16(read_at<uint16_t>(bytes, at + 2 * i));
        break;
      case CodecId::kS1:
      case CodecId::kS1r:
        (*codes)[i] = (read_at<uint8_t>(bytes, at + i / 8) >> (i % 8) & 1) ? -1.0f : 1.0f;
        break;
      case CodecId::kQ4:
      case CodecId::kQ4r: {
        const int nibble = read_at<uint8_t>(bytes, at + i / 2) >> (i % 2 * 4) & 15;
        (*codes)[i] = static_cast<float>(nibble < 8 ? nibble : nibble - 16);
        break;
      }
      default:
        (*codes)[i] = read_at<int8_t>(bytes, at + i);
    }
  switch (codec) {
    case CodecId::kRaw32:
      return 1024;
    case CodecId::kBf16:
      return 512;
    case CodecId::kS1:
    case CodecId::kS1r:
      return 32;
    case CodecId::kQ4:
    case CodecId::kQ4r:
      return 128;
    default:
      return 256;
  }
}

// The blocks of a chunk's payload, in order.
inline std::vector<ReferenceBlock> reference_blocks(const ParameterLayout& layout, uint32_t chunk,
                                                    ByteSpan bytes) {
  const ChunkRange range = layout.chunk(chunk);
  const auto codec = static_cast<CodecId>(bytes[3]);
  const bool scales = codec != CodecId::kRaw32 && codec != CodecId::kBf16;
  const bool own_narrow = !scales || codec == CodecId::kQ8;
  const bool sparse = codec == CodecId::kTk1 || codec == CodecId::kTk5;
  const std::vector<ReferencePlace> places = reference_places(layout, range);

  std::vector<ReferenceBlock> blocks(range.block_count);
  std::vector<uint32_t> groups;
  size_t at = 32;
  for (uint32_t b = 0; b < range.block_count; ++b) {
    blocks[b].codes.resize(256);
    const bool in_group = sparse && places[b].wide;
    if (in_group && !places[b].group) {
      blocks[b].scale = blocks[b - 1].scale;
    } else if (scales) {
      blocks[b].scale = from_bf16(read_at<uint16_t>(bytes, at));
      at += 2;
    }
    if (in_group && places[b].group) groups.push_back(b);
  }
  at = (at + 63) / 64 * 64;
  for (uint32_t b = 0; b < range.block_count; ++b) {
    if (sparse && places[b].wide) continue;
    const bool header_codec = own_narrow || places[b].wide;
    at += reference_codes(header_codec ? codec : CodecId::kQ8, bytes, at, &blocks[b].codes);
    blocks[b].rotated = header_codec && (codec == CodecId::kS1r || codec == CodecId::kQ4r);
  }
  const size_t entries = at + 2 * (groups.size() + 1);
  for (size_t g = 0; g < groups.size(); ++g) {
    size_t element = 0;
    for (size_t entry = entries + read_at<uint16_t>(bytes, at + 2 * g);
         entry < entries + read_at<uint16_t>(bytes, at + 2 * g + 2); entry += 2) {
      for (; read_at<uint8_t>(bytes, entry) == 255; ++entry) element += 255;
      element += read_at<uint8_t>(bytes, entry);
      blocks[groups[g] + element / 256].codes[element % 256] = read_at<int8_t>(bytes, entry + 1);
      ++element;
    }
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
