#include "runtime/base/checksum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/checksum_unit.h"

namespace paceline {

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // bit 31 is x^0

// Slicing by eight: table[k][b] is the CRC of byte b followed by k zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> table{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0u);
    table[0][b] = crc;
  }
  for (uint32_t b = 0; b < 256; ++b)
    for (size_t k = 1; k < 8; ++k)
      table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xFF];
  return table;
}

constexpr auto kTable = make_tables();

uint32_t run_by_table(uint32_t state, const unsigned char* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    word ^= state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTable[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; size > 0; ++data, --size) state = (state >> 8) ^ kTable[0][(state ^ *data) & 0xFF];
  return state;
}

// Product of two polynomials over GF(2), modulo kPolynomial.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= b & (0u - (a >> bit & 1u));
    b = (b >> 1) ^ (kPolynomial & (0u - (b & 1u)));
  }
  return product;
}

// Entry k moves a checksum over 2^k bytes: x^(8 * 2^k).
constexpr std::array<uint32_t, 64> make_shifts() {
  std::array<uint32_t, 64> shifts{};
  shifts[0] = 1u << (31 - 8);
  for (size_t k = 1; k < shifts.size(); ++k) shifts[k] = multiply(shifts[k - 1], shifts[k - 1]);
  return shifts;
}

constexpr auto kShifts = make_shifts();

// Three runs side by side, as long as what is left is worth the cost of joining them.
constexpr size_t kRunBytesMin = 128;

uint32_t run_by_unit(const ChecksumUnit& unit, uint32_t state, const unsigned char* data,
                     size_t size) {
  while (size >= 3 * kRunBytesMin) {
    const size_t run = std::bit_floor(size / 3);
    uint32_t registers[3] = {state, 0, 0};
    unit.run_three(registers, data, run / 8);
    const uint32_t shift = kShifts[static_cast<size_t>(std::countr_zero(run))];
    state = multiply(shift, multiply(shift, registers[0]) ^ registers[1]) ^ registers[2];
    data += 3 * run;
    size -= 3 * run;
  }
  const size_t words = size / 8;
  return run_by_table(unit.run(state, data, words), data + 8 * words, size % 8);
}

}  // namespace

uint32_t crc32c(ByteSpan bytes, uint32_t before) {
  static const ChecksumUnit* const unit = checksum_unit();
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  return unit != nullptr ? ~run_by_unit(*unit, ~before, data, bytes.size())
                         : ~run_by_table(~before, data, bytes.size());
}

uint32_t crc32c_join(uint32_t first, uint32_t second, size_t second_bytes) {
  for (size_t k = 0; second_bytes != 0; ++k, second_bytes >>= 1)
    if ((second_bytes & 1) != 0) first = multiply(kShifts[k], first);
  return first ^ second;
}

}  // namespace paceline
