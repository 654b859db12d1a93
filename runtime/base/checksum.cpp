#include "runtime/base/checksum.h"

#include <array>
#include <cstring>

namespace paceline {

namespace {

// Slicing by eight: table[k][b] is the CRC of byte b followed by k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> table{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82F63B78u : 0u);
    table[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; ++b)
    for (size_t k = 1; k < 8; ++k)
      table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xFF];
  return table;
}

constexpr auto kTable = make_tables();

}  // namespace

uint32_t crc32c(ByteSpan bytes, uint32_t before) {
  uint32_t crc = ~before;
  const std::byte* data = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < 8; ++k) crc ^= kTable[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; ++data, --left)
    crc = (crc >> 8) ^ kTable[0][(crc ^ static_cast<uint32_t>(*data)) & 0xFF];
  return ~crc;
}

}  // namespace paceline
