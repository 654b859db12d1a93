// The vectors of codec_vectors.txt and their inputs, as make_codec_vectors.py says.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/quant/codec.h"

namespace paceline::test {

inline constexpr RotationKey kVectorRotation{24301, 7};

// 19 wide blocks and a tail, 16 wide blocks of almost nothing, a narrow one.
inline ParameterLayout vector_layout() {
  return ParameterLayout::make({{.name = "weight", .shape = {50, 100}},
                                {.name = "quiet", .shape = {64, 64}},
                                {.name = "bias", .shape = {10}}})
      .value();
}

inline constexpr int kVectorExponents[] = {0,  -3,  -8, -8, 2,  -79, -81, -90, -120, 5,
                                           -3, -20, -1, 0,  -2, -6,  -7,  -8,  -5,   -4};

inline int vector_exponent(size_t block) {
  if (block < std::size(kVectorExponents)) return kVectorExponents[block];
  return block < 36 ? -89 : -3;
}

// The update is stream 1, the residual stream 2.
inline std::vector<float> vector_input(const ParameterLayout& layout, uint64_t stream) {
  std::vector<float> values(layout.element_count());
  uint64_t state = stream;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t h = splitmix64(state);
    const size_t block = i / kBlockElements;
    const float scale = std::ldexp(1.0f, vector_exponent(block) - 23);
    const auto part = [&](int bits) {
      return static_cast<float>(static_cast<int64_t>(h >> (64 - bits)) -
                                (int64_t{1} << (bits - 1)));
    };
    values[i] = part(24) * scale;
    if (block % 7 == 1 && (h & 15) != 0) values[i] = i % 2 != 0 ? -0.0f : 0.0f;
    if (block % 7 == 2) values[i] = part(5) * scale * 0x1p19f;
    if (block % 7 == 3 && (h & 63) == 0) values[i] *= 64.0f;
  }
  for (const BlockRun& run : layout.runs())
    for (size_t i = run.element_count; i < size_t{run.block_count} * kBlockElements; ++i)
      values[size_t{run.first_block} * kBlockElements + i] = 0.0f;
  return values;
}

struct CodecVector {
  CodecId codec;
  uint32_t residual_crc = 0;
  Bytes payload;
};

inline std::vector<CodecVector> read_codec_vectors() {
  std::ifstream file("tests/golden/codec_vectors.txt");
  REQUIRE(file.good());
  std::vector<CodecVector> vectors;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (const size_t space = line.find(' '); space != std::string::npos) {
      const auto crc = static_cast<uint32_t>(std::stoul(line.substr(space + 1), nullptr, 16));
      vectors.push_back({codec_by_name(line.substr(0, space)).value(), crc, {}});
      continue;
    }
    for (size_t i = 0; i < line.size(); i += 2)
      vectors.back().payload.push_back(
          static_cast<std::byte>(std::stoul(line.substr(i, 2), nullptr, 16)));
  }
  return vectors;
}

}  // namespace paceline::test
