// D, the random signs of S1R's rotation y = H(D c) / 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/quant/codec.h"

namespace paceline {

inline constexpr size_t kSignWords = kBlockElements / 64;

// Element i of the block is negated when bit i % 64 of word i / 64 is set. `block` counts from the
// start of the whole flat vector.
inline void rotation_signs(RotationKey rotation, uint64_t block, uint64_t words[kSignWords]) {
  uint64_t state =
      rotation.seed ^ (rotation.key * 0x9E3779B97F4A7C15ull) ^ (block * 0xBF58476D1CE4E5B9ull);
  for (size_t w = 0; w < kSignWords; ++w) words[w] = splitmix64(state);
}

}  // namespace paceline
