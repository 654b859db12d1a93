#include "runtime/privacy/discrete_gaussian.h"

namespace paceline {

uint32_t DiscreteGaussian::byte() {
  if (used_ == buffer_.size()) {
    bytes_(buffer_);
    used_ = 0;
  }
  return static_cast<uint32_t>(buffer_[used_++]);
}

uint64_t DiscreteGaussian::bits(int count) {
  uint64_t value = 0;
  for (int got = 0; got < count; got += 8) value = value << 8 | byte();
  return value & ((uint64_t{1} << count) - 1);
}

// True with probability numerator / denominator, at most 1: a uniform number is drawn digit by
// digit until it differs from the fraction, mostly at the first. The denominator is below 2^56.
bool DiscreteGaussian::below(uint64_t numerator, uint64_t denominator) {
  if (numerator >= denominator) return true;
  while (numerator > 0) {
    numerator <<= 8;
    const uint64_t digit = numerator / denominator;
    const uint64_t drawn = byte();
    if (drawn != digit) return drawn < digit;
    numerator -= digit * denominator;
  }
  return false;
}

// True with probability exp(-numerator / denominator), a fraction of at most 1 (algorithm 1).
bool DiscreteGaussian::exp_minus(uint64_t numerator, uint64_t denominator) {
  uint64_t count = 1;
  while (below(numerator, denominator * count)) ++count;
  return count % 2 == 1;
}

// Of scale s (algorithm 2).
int64_t DiscreteGaussian::laplace() {
  const uint64_t scale = uint64_t{1} << sd_log2_;
  while (true) {
    const uint64_t low = bits(sd_log2_);
    if (!exp_minus(low, scale)) continue;
    uint64_t high = 0;
    while (exp_minus(1, 1)) ++high;
    const auto size = static_cast<int64_t>(low + high * scale);
    const bool negative = bits(1) == 1;
    if (negative && size == 0) continue;  // else zero would come twice as often
    return negative ? -size : size;
  }
}

// A Laplace number is taken with probability exp(-(|y| - s)^2 / (2 s^2)) (algorithm 3).
int64_t DiscreteGaussian::draw() {
  const int64_t scale = int64_t{1} << sd_log2_;
  const uint64_t denominator = uint64_t{2} << (2 * sd_log2_);
  while (true) {
    const int64_t value = laplace();
    const int64_t off = (value < 0 ? -value : value) - scale;
    const auto square = static_cast<uint64_t>(off * off);
    uint64_t whole = square / denominator;
    while (whole > 0 && exp_minus(1, 1)) --whole;
    if (whole == 0 && exp_minus(square % denominator, denominator)) return value;
  }
}

}  // namespace paceline
