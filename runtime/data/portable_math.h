// log, exp and square root that give equal bits on every machine, for random variates that decide
// who holds which row. Only +, -, *, / and bit operations in double; within about 4 units in the
// last place.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline::portable {

namespace detail {
inline constexpr int kExponentBias = 1023;
inline constexpr uint64_t kFractionMask = (uint64_t{1} << 52) - 1;
// ln 2 in two parts: the first has so few bits that k * kLn2High is exact.
inline constexpr double kLn2High = 0x1.62e42feep-1;
inline constexpr double kLn2Low = 0x1.a39ef35793c76p-33;

inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + kExponentBias) << 52);
}
}  // namespace detail

// Natural logarithm. x positive, finite and normal.
inline double log(double x) {
  using namespace detail;
  const auto bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - kExponentBias;
  double mantissa =
      std::bit_cast<double>((bits & kFractionMask) | (static_cast<uint64_t>(kExponentBias) << 52));
  if (mantissa > 0x1.6a09e667f3bcdp0) {  // sqrt 2: keeps |s| below 0.172
    mantissa *= 0.5;
    ++exponent;
  }
  // log m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ...); the next term is below 2^-55.
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  double series = 0;
  for (int power = 21; power >= 3; power -= 2) series = (series + 1.0 / power) * square;
  const double k = exponent;
  return k * kLn2High + (2 * s + (2 * s * series + k * kLn2Low));
}

// e^x; 0 below -700. x at most 700.
inline double exp(double x) {
  using namespace detail;
  if (x < -700) return 0;
  const double scaled = x * 0x1.71547652b82fep+0;  // 1 / ln 2
  const int k = static_cast<int>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  // Taylor, |r| < 0.347; the next term is below 2^-60.
  double series = 1;
  for (int n = 14; n >= 1; --n) series = 1 + series * r / n;
  return series * power_of_two(k);
}

// x positive, finite and normal.
inline double square_root(double x) { return exp(0.5 * log(x)); }

}  // namespace paceline::portable
