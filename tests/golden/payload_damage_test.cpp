// Damaged payloads, each with the reason that it is refused for. The undamaged ones are those of
// codec_vectors.txt; runtime/quant/payload_test.cpp has the older codecs'.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "runtime/base/checksum.h"
#include "tests/golden/codec_vectors.h"
#include "tests/runtime/quant/samples.h"

namespace paceline::test {
namespace {

using Raw = std::vector<uint8_t>;

// Where things stand in the vectors' payloads: 37 blocks, of which 19 and 36 are narrow.
constexpr size_t kQ4Codes = 128;
constexpr size_t kQ4Tail = kQ4Codes + 19 * 128;
constexpr size_t kTkScales = 32;
constexpr size_t kTkNarrowCodes = 64;
constexpr size_t kTkRanges = kTkNarrowCodes + 2 * 256;
constexpr size_t kTkEntries = kTkRanges + 4 * 2;

Bytes vector_of(CodecId codec) {
  for (const CodecVector& vector : read_codec_vectors())
    if (vector.codec == codec) return vector.payload;
  REQUIRE(false);
  return {};
}

Bytes sealed(Bytes payload) {
  std::memset(payload.data() + 24, 0, 4);
  const uint32_t crc = crc32c(payload);
  std::memcpy(payload.data() + 24, &crc, 4);
  return payload;
}

Bytes changed(Bytes payload, size_t at, const Raw& bytes) {
  REQUIRE(at + bytes.size() <= payload.size());
  std::memcpy(payload.data() + at, bytes.data(), bytes.size());
  return payload;
}

// A TK payload whose group of three blocks (its second) has these entries.
Bytes with_entries(const Bytes& payload, const Raw& entries) {
  uint16_t ranges[4];
  std::memcpy(ranges, payload.data() + kTkRanges, sizeof ranges);
  Bytes damaged(payload.begin(), payload.begin() + kTkEntries + ranges[1]);
  for (const uint8_t byte : entries) damaged.push_back(std::byte{byte});
  damaged.insert(damaged.end(), payload.begin() + kTkEntries + ranges[2], payload.end());
  const uint16_t old_end = ranges[2];
  for (size_t i = 2; i < 4; ++i)
    ranges[i] = static_cast<uint16_t>(ranges[i] - old_end + ranges[1] + entries.size());
  std::memcpy(damaged.data() + kTkRanges, ranges, sizeof ranges);
  return sealed(damaged);
}

// What a receiver does. Returns why the payload was refused, or "accepted".
std::string receive(const Bytes& payload) {
  const ParameterLayout layout = vector_layout();
  const std::vector<float> before = sample_update(layout, 1, 1);
  std::vector<float> into = before;
  const Bytes sent = payload;
  const Result<PayloadView> view = verify_payload(layout, 0, payload);
  if (view) add_payload(layout, *view, kVectorRotation.seed, into);
  CHECK(payload == sent);
  if (view) return "accepted";
  CHECK(view.error().code() == Code::kCorrupt);
  CHECK(same_bytes(into, before));
  return view.error().message();
}

void check_refused(const Bytes& damaged, const std::string& reason) {
  const std::string message = receive(damaged);
  CHECK_MESSAGE(message.find(reason) != std::string::npos,
                "'" << message << "' does not say '" << reason << "'");
}

struct Damage {
  size_t at;
  Raw bytes;
  const char* reason;
};

void check_damages(const Bytes& payload, const std::vector<Damage>& damages) {
  REQUIRE(receive(payload) == "accepted");
  for (const Damage& damage : damages)
    check_refused(sealed(changed(payload, damage.at, damage.bytes)), damage.reason);
}

TEST_CASE("damage: headers, lengths and checksums of every codec") {
  for (const CodecVector& vector : read_codec_vectors()) {
    check_damages(vector.payload, {
                                      {0, {0x51}, "magic is 0x5151"},
                                      {2, {2}, "version 2"},
                                      {3, {200}, "codec id 200"},
                                      {3, {9}, "codec id 9"},
                                      {3, {2}, "bytes, q8 needs"},
                                      {4, {4}, "flags 0x0004"},
                                      {4, {7}, "flags 0x0007"},
                                      {4, {1}, "flags 0x0001"},
                                      {5, {1}, "flags 0x0105"},
                                      {6, {9}, "block_log2 9"},
                                      {7, {1}, "reserved"},
                                      {8, {1}, "blocks 1 + 37"},
                                      {12, {36}, "blocks 0 + 36"},
                                      {12, {0xFF, 0xFF, 0xFF, 0xFF}, "blocks 0 + 4294967295"},
                                      {28, {1}, "reserved"},
                                  });
    check_refused(changed(vector.payload, 100, {0xA5, 0x5A}), "checksum 0x");
    check_refused(changed(vector.payload, 16, {0xA5}), "checksum 0x");
    check_refused({}, "0 bytes");
    check_refused(Bytes(vector.payload.begin(), vector.payload.begin() + 31), "31 bytes");
    check_refused(sealed(Bytes(vector.payload.begin(), vector.payload.end() - 1)), "needs");
    Bytes longer = vector.payload;
    longer.push_back(std::byte{0});
    check_refused(sealed(longer), "needs");
  }
}

TEST_CASE("damage: scales and codes of q4 and q4r") {
  for (const CodecId codec : {CodecId::kQ4, CodecId::kQ4r}) {
    check_damages(vector_of(codec),
                  {
                      {32, {0xC0, 0x7F}, "block 0: scale 0x7fc0"},  // not a number
                      {34, {0x80, 0x7F}, "block 1: scale 0x7f80"},  // infinite
                      {32 + 2 * 36, {0x80, 0xBF}, "block 36: scale 0xbf80"},
                      {32, {0x00, 0x80}, "scale 0x8000"},
                      {32, {0x01, 0x00}, "scale 0x0001"},
                      {32 + 2 * 19, {0x01, 0x78}, "block 19: scale 0x7801"},  // q8's bound
                      {32, {0, 0}, "block 0: scale 0 with codes"},
                      {32 + 2 * 37, {1}, "padding"},
                      {kQ4Codes - 1, {1}, "padding"},
                      {kQ4Codes + 5, {0x18}, "block 0: code -8"},
                      {kQ4Codes + 3 * 128 + 127, {0x81}, "block 3: code -8"},
                      {kQ4Codes + 8 * 128, {0x10}, "block 8: scale 0 with codes"},
                      {kQ4Tail, {0x80}, "block 19: code -128"},
                      {kQ4Tail + 136, {1}, "block 19: a pad's code"},
                      {kQ4Tail + 256 + 16 * 128 + 10, {0xFF}, "block 36: a pad's code"},
                  });
  }
  check_damages(vector_of(CodecId::kQ4), {{32, {0x01, 0x7A}, "scale 0x7a01"}});   // above 2^117
  check_damages(vector_of(CodecId::kQ4r), {{32, {0x01, 0x7C}, "scale 0x7c01"}});  // above 2^121
}

TEST_CASE("damage: codes of q4r whose inverse is not finite") {
  Bytes payload = changed(vector_of(CodecId::kQ4r), 32, {0x00, 0x7A});
  payload = changed(payload, kQ4Codes, Raw(128, 0x77));
  CHECK(receive(sealed(payload)) == "accepted");
  check_refused(sealed(changed(payload, 32, {0x80, 0x7A})),
                "block 0: codes too large for the scale 0x7a80");
}

TEST_CASE("damage: scales and ranges of tk") {
  for (const CodecId codec : {CodecId::kTk1, CodecId::kTk5})
    check_damages(vector_of(codec),
                  {
                      {kTkScales, {0xC0, 0x7F}, "block 0: scale 0x7fc0"},
                      {kTkScales + 2, {0x01, 0x78}, "block 16: scale 0x7801"},
                      {kTkScales + 2, {0x02, 0xBC}, "block 16: scale 0xbc02"},
                      {kTkScales + 6, {0x02, 0x3C}, "block 20: scale 0x3c02 with 0 bytes"},
                      {kTkScales, {0, 0}, "block 0: scale 0x0000 with"},
                      {kTkScales + 4, {0, 0}, "block 19: scale 0 with codes"},
                      {kTkScales + 10, {1}, "padding"},
                      {kTkNarrowCodes + 136, {1}, "block 19: a pad's code"},
                      {kTkNarrowCodes + 256, {0x80}, "block 36: code -128"},
                      {kTkRanges, {1, 0}, "range 0 is 1"},
                      {kTkRanges + 2, {0xFF, 0xFF}, "range 2 is"},
                      {kTkRanges + 4, {0, 0}, "range 2 is 0, after"},
                      {kTkRanges + 6, {0xFF, 0xFF}, "needs"},
                      {kTkRanges + 6, {0, 0}, "needs"},
                  });
}

TEST_CASE("damage: entries of tk") {
  const Bytes tk1 = vector_of(CodecId::kTk1);
  const auto repeated = [](size_t count) {
    Raw entries;
    for (size_t i = 0; i < count; ++i) entries.insert(entries.end(), {0, 1});
    return entries;
  };
  CHECK(receive(with_entries(tk1, repeated(8))) == "accepted");
  CHECK(receive(with_entries(tk1, {255, 255, 255, 2, 0x7F})) == "accepted");
  const std::vector<std::pair<Raw, std::string>> damages = {
      {repeated(9), "block 16: 9 entries in its group, at most 8"},
      {{255, 255, 255, 3, 1}, "block 16: entry for element 768, its group has 768"},
      {{2, 1, 255, 255, 254, 1, 0, 1}, "block 16: entry for element 768, its group has 768"},
      {Raw(300, 255), "block 16: its entries end within one"},
      {{255}, "block 16: its entries end within one"},
      {{3}, "block 16: its entries end within one"},
      {{3, 1, 255, 4}, "block 16: its entries end within one"},
      {{3, 0}, "block 16: code 0 in an entry"},
      {{3, 0x80}, "block 16: code -128 in an entry"},
      {{}, "with 0 bytes of entries"},
  };
  for (const auto& [entries, reason] : damages) check_refused(with_entries(tk1, entries), reason);
  const Bytes tk5 = vector_of(CodecId::kTk5);
  CHECK(receive(with_entries(tk5, repeated(39))) == "accepted");
  check_refused(with_entries(tk5, repeated(40)), "block 16: 40 entries in its group, at most 39");
}

}  // namespace
}  // namespace paceline::test
