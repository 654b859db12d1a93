// Whole numbers of a Gaussian shape, drawn exactly: P(x) is proportional to exp(-x^2 / (2 s^2)).
//
// Floating-point noise has gaps that tell what it was added to (Mironov, CCS 2012). These numbers
// are sums and comparisons of integers only; nothing is rounded, so nothing of the kind is there to
// be told, and the same bytes give the same numbers on every machine. The discrete Gaussian keeps
// the promise of the continuous one (Canonne, Kamath, Steinke, NeurIPS 2020).
// Source: their algorithms 1 to 3, with s a power of two.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace paceline {

// Fills the bytes. Noise is as private as these are secret: a daemon takes the system's
// cryptographic generator, simulations and tests a seeded one.
using RandomBytes = std::function<void(std::span<std::byte>)>;

class DiscreteGaussian {
 public:
  // s = 2^sd_log2, 0 to 20. `bytes` has to outlive this.
  DiscreteGaussian(int sd_log2, const RandomBytes& bytes) : sd_log2_(sd_log2), bytes_(bytes) {}

  // Below 2^31 in magnitude, but once in e^2000 draws.
  int64_t draw();

 private:
  uint32_t byte();
  uint64_t bits(int count);
  bool below(uint64_t numerator, uint64_t denominator);
  bool exp_minus(uint64_t numerator, uint64_t denominator);
  int64_t laplace();

  int sd_log2_;
  const RandomBytes& bytes_;
  std::array<std::byte, 1024> buffer_{};
  size_t used_ = sizeof(buffer_);
};

}  // namespace paceline
