// Built with the CRC extension, which is used after the check only.
#include "runtime/base/checksum_unit.h"

#include <arm_acle.h>
#include <string.h>
#include <sys/auxv.h>

namespace paceline {

namespace {

uint64_t load_word(const unsigned char* data) {
  uint64_t word;
  memcpy(&word, data, sizeof word);
  return word;
}

uint32_t run(uint32_t state, const unsigned char* data, size_t words) {
  for (; words > 0; --words, data += 8) state = __crc32cd(state, load_word(data));
  return state;
}

void run_three(uint32_t registers[3], const unsigned char* data, size_t words) {
  const size_t stride = 8 * words;
  uint32_t first = registers[0];
  uint32_t second = registers[1];
  uint32_t third = registers[2];
  for (const unsigned char* end = data + stride; data < end; data += 8) {
    first = __crc32cd(first, load_word(data));
    second = __crc32cd(second, load_word(data + stride));
    third = __crc32cd(third, load_word(data + 2 * stride));
  }
  registers[0] = first;
  registers[1] = second;
  registers[2] = third;
}

constexpr ChecksumUnit kUnit = {run, run_three};

}  // namespace

const ChecksumUnit* checksum_unit() {
  constexpr unsigned long kHwcapCrc32 = 1ul << 7;  // of AT_HWCAP, 64-bit Arm
  return (getauxval(AT_HWCAP) & kHwcapCrc32) != 0 ? &kUnit : nullptr;
}

}  // namespace paceline
