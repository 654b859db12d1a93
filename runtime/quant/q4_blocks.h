// What Q4 and Q4R share: two codes a byte, the first one in the lower half, -7 to 7 in two's
// complement.
#pragma once

#include <cstdint>

#include "runtime/quant/block_coder.h"

namespace paceline {

inline constexpr uint32_t kQ4CodeBytes = kBlockElements / 2;

// Errors: kCorrupt for a scale above `scale_max` or otherwise not legal, and for a code -8.
Status verify_q4(const CodedBlocks& blocks, const CodedBytes& in, float scale_max);

// Sum of code^2 and of |code| over one block.
struct Q4Total {
  uint32_t squares = 0;
  uint32_t magnitudes = 0;
};
Q4Total q4_total(const unsigned char* codes);

}  // namespace paceline
