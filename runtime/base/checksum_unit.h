// CRC-32C by a CPU's own instruction: the contract of platforms/<cpu>/checksum.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace paceline {

// Both continue the checksum's register (not inverted) over whole words of eight bytes, at any
// alignment.
struct ChecksumUnit {
  uint32_t (*run)(uint32_t state, const unsigned char* data, size_t words);
  // Three runs at once, each over `words` words: registers[k] begins at data + 8 k words. The
  // instruction's latency is three times what it takes, so this is three times as fast.
  void (*run_three)(uint32_t registers[3], const unsigned char* data, size_t words);
};

// Null if this CPU has no such instruction.
const ChecksumUnit* checksum_unit();

}  // namespace paceline
