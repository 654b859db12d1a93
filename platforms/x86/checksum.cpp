#include "runtime/base/checksum_unit.h"

#include <nmmintrin.h>
#include <string.h>

namespace paceline {

namespace {

// Only these functions use the instruction, so the file itself is built for the baseline.
#define PACELINE_SSE42 __attribute__((target("sse4.2")))

uint64_t load_word(const unsigned char* data) {
  uint64_t word;
  memcpy(&word, data, sizeof word);
  return word;
}

PACELINE_SSE42 uint32_t run(uint32_t state, const unsigned char* data, size_t words) {
  uint64_t crc = state;
  for (; words > 0; --words, data += 8) crc = _mm_crc32_u64(crc, load_word(data));
  return static_cast<uint32_t>(crc);
}

PACELINE_SSE42 void run_three(uint32_t registers[3], const unsigned char* data, size_t words) {
  uint64_t first = registers[0];
  uint64_t second = registers[1];
  uint64_t third = registers[2];
  const size_t stride = 8 * words;
  for (const unsigned char* end = data + stride; data < end; data += 8) {
    first = _mm_crc32_u64(first, load_word(data));
    second = _mm_crc32_u64(second, load_word(data + stride));
    third = _mm_crc32_u64(third, load_word(data + 2 * stride));
  }
  registers[0] = static_cast<uint32_t>(first);
  registers[1] = static_cast<uint32_t>(second);
  registers[2] = static_cast<uint32_t>(third);
}

#undef PACELINE_SSE42

constexpr ChecksumUnit kUnit = {run, run_three};

}  // namespace

const ChecksumUnit* checksum_unit() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") ? &kUnit : nullptr;
}

}  // namespace paceline
