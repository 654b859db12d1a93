// What independent programs made from the text of the format: scales, codes and residuals of q8, s1
// and s1r in golden/ of the folder that PACELINE_TEST_DATA names; whole payloads of the later
// codecs in codec_vectors.txt, by make_codec_vectors.py beside it.
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/rotation.h"
#include "tests/golden/codec_vectors.h"
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

TEST_CASE("golden: every kernel set writes the payloads of the independent program") {
  const ParameterLayout layout = test::vector_layout();
  const std::vector<float> update = test::vector_input(layout, 1);
  const std::vector<test::CodecVector> vectors = test::read_codec_vectors();
  CHECK(vectors.size() == 4);
  test::on_every_kernel_set([&](const KernelSet& set) {
    for (const test::CodecVector& want : vectors) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codec_info(want.codec).name));
      std::vector<float> residual = test::vector_input(layout, 2);
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
