// Bytes of a seed where a board would take secret ones.
#pragma once

#include "runtime/base/random.h"
#include "runtime/privacy/discrete_gaussian.h"

namespace paceline::test {

inline RandomBytes seeded_bytes(uint64_t seed, uint64_t stream = 0) {
  return [random = Random(seed, stream)](std::span<std::byte> bytes) mutable {
    for (std::byte& value : bytes) value = static_cast<std::byte>(random.next() >> 56);
  };
}

}  // namespace paceline::test
