#include "runtime/base/checksum.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

uint32_t of(const std::vector<uint8_t>& bytes) { return crc32c(std::as_bytes(std::span(bytes))); }

// Bit by bit, as the polynomial is defined: knows of no table.
uint32_t by_bits(ByteSpan bytes) {
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0);
  }
  return ~crc;
}

}  // namespace

TEST_SUITE("base/checksum") {
  TEST_CASE("the vectors of RFC 3720, appendix B.4") {
    std::vector<uint8_t> rising(32), falling(32);
    for (uint8_t i = 0; i < 32; ++i) {
      rising[i] = i;
      falling[i] = static_cast<uint8_t>(31 - i);
    }
    std::vector<uint8_t> read_command(48);
    read_command[0] = 0x01;
    read_command[1] = 0xC0;
    read_command[16] = 0x14;
    read_command[22] = 0x04;
    read_command[27] = 0x14;
    read_command[31] = 0x18;
    read_command[32] = 0x28;
    read_command[40] = 0x02;
    CHECK(of(std::vector<uint8_t>(32, 0)) == 0x8A9136AA);
    CHECK(of(std::vector<uint8_t>(32, 0xFF)) == 0x62A8AB43);
    CHECK(of(rising) == 0x46DD794E);
    CHECK(of(falling) == 0x113FDB5C);
    CHECK(of(read_command) == 0xD9963A56);
    CHECK(of({}) == 0);
  }

  TEST_CASE("the same as bit by bit, for every length, at every alignment, in any two parts") {
    Random random(test::seed(), 1);
    Bytes bytes(200);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    for (size_t begin = 0; begin < 8; ++begin) {
      for (size_t length = 0; length <= 130; ++length) {
        const ByteSpan part = ByteSpan(bytes).subspan(begin, length);
        const uint32_t whole = by_bits(part);
        const size_t cut = static_cast<size_t>(random.below(length + 1));
        const uint32_t streamed = crc32c(part.subspan(cut), crc32c(part.first(cut)));
        const uint32_t joined =
            crc32c_join(crc32c(part.first(cut)), crc32c(part.subspan(cut)), length - cut);
        if (crc32c(part) != whole || streamed != whole || joined != whole)
          FAIL("length " << length);
      }
    }
  }

  TEST_CASE("the same as bit by bit for long strings, which are taken in several runs") {
    Random random(test::seed(), 2);
    Bytes bytes(100'000);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(256));
    for (int repeat = 0; repeat < 40; ++repeat) {
      const size_t begin = static_cast<size_t>(random.below(64));
      const size_t bound = repeat % 4 == 0 ? bytes.size() - begin : 4000;
      const ByteSpan part =
          ByteSpan(bytes).subspan(begin, static_cast<size_t>(random.below(bound)));
      const auto before = static_cast<uint32_t>(random.next());
      CHECK(crc32c(part, before) == crc32c_join(before, by_bits(part), part.size()));
    }
  }

  TEST_CASE("every change of one bit changes the checksum of a model") {
    std::vector<float> model(64, 0.5f);
    const uint32_t before = model_checksum(model);
    auto* raw = reinterpret_cast<uint8_t*>(model.data());
    for (size_t bit = 0; bit < model.size() * 32; ++bit) {
      raw[bit / 8] = static_cast<uint8_t>(raw[bit / 8] ^ (1u << (bit % 8)));
      if (model_checksum(model) == before) FAIL("bit " << bit);
      raw[bit / 8] = static_cast<uint8_t>(raw[bit / 8] ^ (1u << (bit % 8)));
    }
    CHECK(model_checksum(model) == before);
  }
}
