// CRC-32C (Castagnoli), the checksum of every payload, publication and file of this product.
//
// Source: RFC 3720, appendix B.4 (test vectors in checksum_test.cpp). Runs on the CPU's instruction
// where there is one (checksum_unit.h). Safe from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/bytes.h"

namespace paceline {

// Checksum of `bytes` that follow bytes whose checksum is `before` (0 for none).
uint32_t crc32c(ByteSpan bytes, uint32_t before = 0);

// Checksum of bytes with the checksum `first` followed by `second_bytes` bytes with the checksum
// `second`, without a look at any of them.
uint32_t crc32c_join(uint32_t first, uint32_t second, size_t second_bytes);

// Checksum of a published model: CRC-32C of its flat little-endian float32 vector, pads included.
inline uint32_t model_checksum(std::span<const float> model) {
  return crc32c(std::as_bytes(model));
}

}  // namespace paceline
