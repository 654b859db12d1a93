// What RAW32 and BF16 share: blocks whose codes are numbers, without scales.
//
// Value has load(codes, i), which gives element i as float32, kBytes of one code and kMax, the
// largest legal magnitude.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

inline size_t element_total(const CodedBlocks& blocks) {
  return size_t{blocks.block_count} * kBlockElements;
}

// 1 where neither 0 nor within [2^-90, max]; without a branch, so that loops of it are vectorized.
inline uint32_t is_illegal_value(uint32_t bits, uint32_t max) {
  const uint32_t above_least = (bits & kMagnitudeBits) - kFlushBits;  // wraps below it
  return static_cast<uint32_t>(bits != 0) & static_cast<uint32_t>(above_least > max - kFlushBits);
}

// There is an illegal value at `begin` or behind it.
template <class Value>
Status describe_illegal(const CodedBlocks& blocks, const unsigned char* codes, size_t begin) {
  const uint32_t max = bits_of(Value::kMax);
  for (size_t i = begin;; ++i) {
    const uint32_t bits = bits_of(Value::load(codes, i));
    if (bits == 0) continue;
    const size_t block = blocks.first_block + i / kBlockElements;
    if (i >= blocks.element_count)
      return fail(Code::kCorrupt, "block %zu: pad element %zu is not 0", block, i % kBlockElements);
    if (is_illegal_value(bits, max) != 0)
      return fail(Code::kCorrupt, "block %zu: element %zu has the bits 0x%08x, out of range", block,
                  i % kBlockElements, bits);
  }
}

template <class Value>
Status verify_values(const CodedBlocks& blocks, const CodedBytes& in) {
  const uint32_t max = bits_of(Value::kMax);
  for (size_t at = 0; at < element_total(blocks); at += kBlockElements) {
    uint32_t illegal = 0;
    for (size_t i = 0; i < kBlockElements; ++i)
      illegal |= is_illegal_value(bits_of(Value::load(in.codes, at + i)), max);
    for (size_t i = std::max<size_t>(blocks.element_count, at); i < at + kBlockElements; ++i)
      illegal |= bits_of(Value::load(in.codes, i));
    if (illegal != 0) return describe_illegal<Value>(blocks, in.codes, at);
  }
  return {};
}

template <class Value>
void add_values(const CodedBlocks& blocks, const CodedBytes& in, float* into) {
  for (size_t i = 0; i < element_total(blocks); ++i)
    into[i] = flushed(into[i] + Value::load(in.codes, i));
}

template <class Value>
void sum_values(std::span<const BlockTerm> terms, float* acc) {
  for (const BlockTerm& term : terms)
    for (size_t i = 0; i < kBlockElements; ++i) acc[i] += term.weight * Value::load(term.codes, i);
}

template <class Value>
double values_norm_squared(const CodedBlocks& blocks, const CodedBytes& in) {
  double total = 0;
  for (size_t i = 0; i < element_total(blocks); ++i) {
    const double value = Value::load(in.codes, i);
    total += value * value;
  }
  return total;
}

}  // namespace paceline
