// What independent programs made from the text of the format: scales, codes and residuals of q8, s1
// and s1r in golden/ of the folder that PACELINE_TEST_DATA names; whole payloads of the later
// codecs in codec_vectors.txt, by make_codec_vectors.py beside it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/rotation.h"
#include "tests/runtime/quant/samples.h"

namespace paceline {
namespace {

// golden/index.json says so.
constexpr RotationKey kRotation{24301, 7};
constexpr const char* kCases[] = {
    "normal",     "tiny_scale", "heavy_tail",     "zeros_and_negative_zeros",
    "wide_range", "ties",       "special_blocks", "around_cutoff",
    "near_flush"};

const char* data_folder() { return std::getenv("PACELINE_TEST_DATA"); }

std::vector<unsigned char> read(const std::string& name) {
  std::ifstream file(std::string(data_folder()) + "/golden/" + name, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> read_floats(const std::string& name) {
  const std::vector<unsigned char> bytes = read(name);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Encoded {
  std::vector<unsigned char> scales;
  std::vector<unsigned char> codes;
  std::vector<float> residual;
};

Encoded encode(const KernelSet& set, const std::string& codec, const std::string& name) {
  const std::vector<float> update = read_floats(name + ".update.f32");
  Encoded got;
  got.residual = read_floats(name + ".residual_in.f32");
  const size_t blocks = update.size() / kBlockElements;
  got.scales.resize(blocks * 2);
  got.codes.resize(blocks * (codec == "q8" ? 256 : 32));
  if (codec == "q8") {
    set.encode_q8(update.data(), got.residual.data(), blocks, got.scales.data(), got.codes.data());
  } else if (codec == "s1") {
    set.encode_s1(update.data(), got.residual.data(), blocks, got.scales.data(), got.codes.data());
  } else {
    std::vector<uint64_t> signs(blocks * kSignWords);
    for (size_t b = 0; b < blocks; ++b) rotation_signs(kRotation, b, &signs[b * kSignWords]);
    set.encode_s1r(update.data(), got.residual.data(), signs.data(), blocks, got.scales.data(),
                   got.codes.data());
  }
  return got;
}

TEST_CASE("golden: every kernel set writes the blocks of the independent program") {
  if (data_folder() == nullptr) {
    std::printf("skipped: no data\n");
    return;
  }
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    std::printf("golden vectors on %s\n", set->name);
    for (const std::string name : kCases)
      for (const std::string codec : {"q8", "s1", "s1r"}) {
        CAPTURE(std::string(set->name));
        CAPTURE(name);
        CAPTURE(codec);
        const Encoded got = encode(*set, codec, name);
        CHECK(got.scales == read(name + "." + codec + ".scales.u16"));
        CHECK(got.codes == read(name + "." + codec + ".codes.bin"));
        const std::vector<unsigned char> want = read(name + "." + codec + ".residual_out.f32");
        REQUIRE(want.size() == got.residual.size() * sizeof(float));
        CHECK(std::memcmp(want.data(), got.residual.data(), want.size()) == 0);
      }
  }
}

// The rest follows make_codec_vectors.py.

constexpr int kExponents[] = {0,  -3,  -8, -8, 2,  -79, -81, -90, -120, 5,
                              -3, -20, -1, 0,  -2, -6,  -7,  -8,  -5,   -4};

int exponent_of(size_t block) {
  if (block < std::size(kExponents)) return kExponents[block];
  return block < 36 ? -82 : -3;
}

std::vector<float> sample(const ParameterLayout& layout, uint64_t stream) {
  std::vector<float> values(layout.element_count());
  uint64_t state = stream;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t h = splitmix64(state);
    const size_t block = i / kBlockElements;
    const float scale = std::ldexp(1.0f, exponent_of(block) - 23);
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

struct Vector {
  CodecId codec;
  uint32_t residual_crc = 0;
  Bytes payload;
};

std::vector<Vector> read_vectors() {
  std::ifstream file("tests/golden/codec_vectors.txt");
  REQUIRE(file.good());
  std::vector<Vector> vectors;
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

TEST_CASE("golden: every kernel set writes the payloads of the independent program") {
  const ParameterLayout layout = ParameterLayout::make({{.name = "weight", .shape = {50, 100}},
                                                        {.name = "quiet", .shape = {64, 64}},
                                                        {.name = "bias", .shape = {10}}})
                                     .value();
  const std::vector<float> update = sample(layout, 1);
  const std::vector<Vector> vectors = read_vectors();
  CHECK(vectors.size() == 4);
  test::on_every_kernel_set([&](const KernelSet& set) {
    for (const Vector& want : vectors) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codec_info(want.codec).name));
      std::vector<float> residual = sample(layout, 2);
      EncodedUpdate got;
      REQUIRE(encode_update(layout, want.codec, kRotation, update, residual, &got).ok());
      CHECK(got.chunks[0] == want.payload);
      CHECK(crc32c(std::as_bytes(std::span(residual))) == want.residual_crc);
      CHECK(verify_payload(layout, 0, want.payload));
    }
  });
}

}  // namespace
}  // namespace paceline
