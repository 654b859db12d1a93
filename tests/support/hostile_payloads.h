// Payloads that no honest worker sends, one for each thing that can be wrong with one, and a word
// of the reason for which it is refused.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/quant/payload.h"

namespace paceline::test {

struct HostilePayload {
  std::string name;
  Bytes payload;
  std::string reason;
};

// `good` is a legal Q8 payload with a scale that is not 0 in its first block.
inline std::vector<HostilePayload> hostile_payloads(const Bytes& good) {
  constexpr size_t kCrcAt = 24;
  std::vector<HostilePayload> all;
  const auto add = [&](const char* name, const char* reason, auto spoil, bool sealed = true) {
    Bytes payload = good;
    spoil(payload);
    if (sealed) {
      const uint32_t zero = 0;
      std::memcpy(payload.data() + kCrcAt, &zero, sizeof zero);
      const uint32_t checksum = crc32c(payload);
      std::memcpy(payload.data() + kCrcAt, &checksum, sizeof checksum);
    }
    all.push_back({name, std::move(payload), reason});
  };
  const auto put = [](size_t at, auto value) {
    return [at, value](Bytes& payload) { std::memcpy(payload.data() + at, &value, sizeof value); };
  };
  add(
      "nothing", "bytes", [](Bytes& p) { p.clear(); }, false);
  add(
      "half a header", "bytes", [](Bytes& p) { p.resize(kPayloadHeaderBytes / 2); }, false);
  add("a byte short", "bytes", [](Bytes& p) { p.pop_back(); });
  add("a byte long", "bytes", [](Bytes& p) { p.push_back(std::byte{0}); });
  add(
      "a code changed, not the CRC", "checksum", [](Bytes& p) { p.back() ^= std::byte{1}; }, false);
  add("another magic", "magic", put(0, uint16_t{0x4141}));
  add("a version of the future", "version", put(2, uint8_t{9}));
  add("an unknown codec", "codec id 200", put(3, uint8_t{200}));
  add("a flag that has no meaning", "flags", put(4, uint16_t{0xFFFF}));
  add("another block size", "block_log2", put(6, uint8_t{31}));
  add("a reserved byte", "reserved", put(7, uint8_t{1}));
  add("a first block far away", "blocks", put(8, UINT32_MAX));
  add("a block count that overflows", "blocks", put(12, UINT32_MAX));
  add("a block count that overflows by its bytes", "blocks", put(12, uint32_t{0x01000001}));
  add("no block at all", "blocks", put(12, uint32_t{0}));
  add("a scale that is not a number", "scale", put(kPayloadHeaderBytes, uint16_t{0x7FC0}));
  add("an infinite scale", "scale", put(kPayloadHeaderBytes, uint16_t{0x7F80}));
  add("a negative scale", "scale", put(kPayloadHeaderBytes, uint16_t{0xBF80}));
  add("a scale below all", "scale", put(kPayloadHeaderBytes, uint16_t{0x0001}));
  add("the code -128", "code -128", [](Bytes& p) {
    const size_t padded = 64;  // of a model with at most 16 blocks
    p[padded] = std::byte{0x80};
  });
  return all;
}

}  // namespace paceline::test
