#include "runtime/quant/payload.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/base/checksum.h"
#include "tests/runtime/quant/reference.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr RotationKey kRotation{0x5EED, 9};

// One wide run, one narrow one with pads.
ParameterLayout layout() {
  return ParameterLayout::make(
             {{.name = "weight", .shape = {4096}}, {.name = "bias", .shape = {9}}})
      .value();
}

Bytes sealed(Bytes payload) {
  const uint32_t zero = 0;
  std::memcpy(payload.data() + 24, &zero, 4);
  const uint32_t crc = crc32c(payload);
  std::memcpy(payload.data() + 24, &crc, 4);
  return payload;
}

template <class T>
Bytes with(Bytes payload, size_t offset, T value) {
  REQUIRE(offset + sizeof value <= payload.size());
  std::memcpy(payload.data() + offset, &value, sizeof value);
  return sealed(payload);
}

Bytes encoded(CodecId codec) {
  const ParameterLayout model = layout();
  Random random(seed(), 1);
  std::vector<float> update(model.element_count());
  for (size_t i = 0; i < 4096 + 9; ++i) update[i] = random.symmetric();
  std::vector<float> residual(model.element_count());
  EncodedUpdate out;
  REQUIRE(encode_update(model, codec, kRotation, update, residual, &out).ok());
  return out.chunks[0];
}

std::string refusal(const Bytes& payload, uint32_t chunk = 0) {
  const Result<PayloadView> view = verify_payload(layout(), chunk, payload);
  if (view) return "accepted";
  CHECK(view.error().code() == Code::kCorrupt);
  return view.error().message();
}

bool refused_for(const Bytes& payload, const char* reason) {
  const std::string message = refusal(payload);
  INFO(message);
  CHECK(message.find(reason) != std::string::npos);
  return message.find(reason) != std::string::npos;
}

TEST_CASE("payload: header, scales and codes stand where the format says") {
  const Bytes q8 = encoded(CodecId::kQ8);
  CHECK(q8.size() == 128 + 17 * 256);  // 32 + 17 * 2 = 66, padded to 128
  CHECK(read_at<uint16_t>(q8, 0) == 0x5150);
  CHECK(read_at<uint8_t>(q8, 2) == 1);
  CHECK(read_at<uint8_t>(q8, 3) == 2);
  CHECK(read_at<uint16_t>(q8, 4) == 5);
  CHECK(read_at<uint8_t>(q8, 6) == 8);
  CHECK(read_at<uint32_t>(q8, 8) == 0);
  CHECK(read_at<uint32_t>(q8, 12) == 17);
  CHECK(read_at<uint64_t>(q8, 16) == 9);
  CHECK(encoded(CodecId::kS1).size() == 128 + 16 * 32 + 256);
  CHECK(encoded(CodecId::kS1r).size() == 128 + 16 * 32 + 256);
  CHECK(encoded(CodecId::kBf16).size() == 64 + 17 * 512);
  CHECK(encoded(CodecId::kRaw32).size() == 64 + 17 * 1024);
}

TEST_CASE("verify: every field of the header is held to its legal values") {
  const Bytes good = encoded(CodecId::kS1r);
  REQUIRE(refusal(good) == "accepted");
  CHECK(refused_for(with(good, 0, uint16_t{0x5151}), "magic"));
  CHECK(refused_for(with(good, 2, uint8_t{2}), "version"));
  CHECK(refused_for(with(good, 3, uint8_t{99}), "codec id 99"));
  CHECK(refused_for(with(good, 4, uint16_t{4}), "flags"));  // lossy without error feedback
  CHECK(refused_for(with(good, 4, uint16_t{7}), "flags"));  // non-finite present
  CHECK(refused_for(with(good, 4, uint16_t{1}), "flags"));  // absolute values in one bit
  CHECK(refused_for(with(good, 4, uint16_t{13}), "flags"));
  CHECK(refused_for(with(good, 6, uint8_t{9}), "block_log2"));
  CHECK(refused_for(with(good, 7, uint8_t{1}), "reserved"));
  CHECK(refused_for(with(good, 8, uint32_t{1}), "blocks"));
  CHECK(refused_for(with(good, 12, uint32_t{0xFFFFFFFF}), "blocks"));
  CHECK(refused_for(with(good, 28, uint32_t{1}), "reserved"));
  CHECK(refused_for(with(good, 66, uint8_t{1}), "padding"));
  Bytes unsealed = good;
  unsealed[200] ^= std::byte{1};
  CHECK(refused_for(unsealed, "checksum"));
  CHECK(refusal(good, 1).find("chunk 1, the model has 1") != std::string::npos);
}

TEST_CASE("verify: scales and codes that no encoder writes are refused") {
  const Bytes q8 = encoded(CodecId::kQ8);
  CHECK(refused_for(with(q8, 32, uint16_t{0x7FC0}), "scale 0x7fc0"));  // not a number
  CHECK(refused_for(with(q8, 32, uint16_t{0x7F80}), "scale 0x7f80"));  // infinite
  CHECK(refused_for(with(q8, 32, uint16_t{0x8000}), "scale 0x8000"));
  CHECK(refused_for(with(q8, 32, uint16_t{0xBF80}), "scale 0xbf80"));
  CHECK(refused_for(with(q8, 32, uint16_t{0x0001}), "scale 0x0001"));  // subnormal
  CHECK(refused_for(with(q8, 32, uint16_t{0x7801}), "scale 0x7801"));  // above 2^113
  CHECK(refused_for(with(q8, 32, uint16_t{0}), "scale 0 with codes"));
  CHECK(refused_for(with(q8, 128 + 300, uint8_t{0x80}), "block 1: code -128"));
  CHECK(refused_for(with(q8, 128 + 16 * 256 + 9, uint8_t{1}), "block 16: a pad's code"));
  CHECK(refusal(with(q8, 128 + 16 * 256 + 8, uint8_t{1})) == "accepted");

  const Bytes s1 = encoded(CodecId::kS1);
  CHECK(refused_for(with(s1, 32, uint16_t{0x7B01}), "scale 0x7b01"));  // above 2^119
  CHECK(refused_for(with(s1, 34, uint16_t{0}), "block 1: scale 0 with codes"));

  for (const CodecId codec : {CodecId::kRaw32, CodecId::kBf16}) {
    const Bytes good = encoded(codec);
    const size_t width = codec == CodecId::kRaw32 ? 4 : 2;
    const auto with_value = [&](size_t element, uint32_t bits) {
      if (width == 4) return with(good, 64 + 4 * element, bits);
      return with(good, 64 + 2 * element, static_cast<uint16_t>(bits >> 16));
    };
    for (uint32_t bits : {0x7FC00000u, 0x7F800000u, 0xFF800000u, 0x7B800000u, 0x80000000u,
                          0x00010000u, 0x92000000u})
      CHECK(refused_for(with_value(300, bits), "block 1: element 44"));
    CHECK(refused_for(with_value(16 * 256 + 9, 0x3F800000u), "pad element 9"));
  }
  CHECK(refused_for(with(encoded(CodecId::kRaw32), 64, 0x1p119f), "element 0"));
}

TEST_CASE("verify: every truncation and every longer payload is refused") {
  for (const CodecInfo& info : codecs()) {
    const Bytes good = encoded(info.id);
    size_t accepted = 0;
    for (size_t length = 0; length < good.size(); ++length)
      if (verify_payload(layout(), 0, ByteSpan(good).first(length))) ++accepted;
    CHECK(accepted == 0);
    Bytes longer = good;
    longer.push_back(std::byte{0});
    CHECK(refusal(sealed(longer)).find("bytes") != std::string::npos);
  }
}

TEST_CASE(
    "verify: every change of one byte is refused, and decodes safely if its checksum is mended") {
  const ParameterLayout model = layout();
  for (const CodecInfo& info : codecs()) {
    CAPTURE(std::string(info.name));
    const Bytes good = encoded(info.id);
    const size_t stride = good.size() > 6000 ? 13 : 3;
    size_t accepted = 0;
    size_t mended = 0;
    size_t wild = 0;
    for (size_t at = 0; at < good.size(); at += at < 128 ? 1 : stride) {
      Bytes changed = good;
      changed[at] ^= static_cast<std::byte>(1u << (at % 8));
      if (verify_payload(model, 0, changed)) ++accepted;
      changed = sealed(changed);
      const Result<PayloadView> view = verify_payload(model, 0, changed);
      if (!view) continue;
      ++mended;
      std::vector<float> into(model.element_count());
      add_payload(model, *view, kRotation.seed, into);
      for (size_t i = 0; i < into.size(); ++i)
        if (!(std::fabs(into[i]) < 0x1p124f) || (i >= 4096 + 9 && into[i] != 0)) ++wild;
    }
    CHECK(accepted == 0);
    CHECK(mended > 0);
    CHECK(wild == 0);
  }
}

TEST_CASE("payload: it may lie at any address") {
  const ParameterLayout model = layout();
  for (const CodecInfo& info : codecs()) {
    const Bytes good = encoded(info.id);
    std::vector<float> want(model.element_count());
    add_payload(model, verify_payload(model, 0, good).value(), kRotation.seed, want);
    for (size_t shift = 1; shift < 8; ++shift) {
      Bytes moved(shift, std::byte{0xAA});
      moved.insert(moved.end(), good.begin(), good.end());
      const PayloadView view = verify_payload(model, 0, ByteSpan(moved).subspan(shift)).value();
      std::vector<float> got(model.element_count());
      add_payload(model, view, kRotation.seed, got);
      CHECK(same_bytes(got, want));
    }
  }
}

TEST_CASE("parts: they cover every block of every chunk once, in order, and count the elements") {
  for (const ParameterLayout& model : {small_layout(), large_layout()}) {
    uint32_t next_block = 0;
    uint64_t elements = 0;
    for (uint32_t chunk = 0; chunk < model.chunk_count(); ++chunk)
      for (ChunkParts part(model, model.chunk(chunk)); part.next();) {
        CHECK(part->first_block == next_block);
        CHECK(part->block_count > 0);
        next_block += part->block_count;
        elements += part->element_count;
      }
    CHECK(next_block == model.block_count());
    CHECK(elements == model.parameter_count());
  }
}

}  // namespace
}  // namespace paceline::test
