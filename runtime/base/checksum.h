// CRC-32C (Castagnoli), the checksum of every payload, publication and file of this product.
//
// Source: RFC 3720, appendix B.4 (test vectors in checksum_test.cpp). Safe from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/bytes.h"

namespace paceline {

// Checksum of `bytes` that follow bytes whose checksum is `before` (0 for none).
uint32_t crc32c(ByteSpan bytes, uint32_t before = 0);

// Checksum of a published model: CRC-32C of its flat little-endian float32 vector, pads included.
inline uint32_t model_checksum(std::span<const float> model) {
  return crc32c(std::as_bytes(model));
}

}  // namespace paceline
