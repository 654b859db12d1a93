// exp, log and what is made of them from additions, multiplications, divisions and bit moves alone:
// libm picks variants by CPU, and what is trained on the reference backend must be equal
// everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace paceline {

// e^x for x <= 0 within 2 ulp; +0 below -87; NaN for NaN. Has no branches, so loops over it
// vectorise. Source: the polynomial of Cephes' expf (Moshier 1989), degree 5 after reduction to |r|
// <= ln2/2.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0f;  // e^-87 is normal
  constexpr float kLog2E = 1.44269504f;
  constexpr float kLn2High = 0.693359375f;  // few enough bits that n * kLn2High is exact
  constexpr float kLn2Low = -2.12194440e-4f;
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * kLog2E + kRounder;
  const uint32_t n = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kRounder);
  const float whole = shifted - kRounder;
  const float r = (clamped - whole * kLn2High) - whole * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float fraction = (p * (r * r) + r) + 1.0f;
  const float scale = std::bit_cast<float>((n + 127u) << 23);
  const float value = fraction * scale;
  const float flushed = x < kLowest ? 0.0f : value;
  return x == x ? flushed : x;
}

// ln x for normal x > 0 within 1 ulp; NaN for NaN. In double, so that no care is needed: it runs
// once a row. Series: ln m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172; the first term left out is <
// 2^-32.
inline float log_positive(float x) {
  if (!(x == x)) return x;
  uint32_t bits = std::bit_cast<uint32_t>(x);
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  bits = (bits & 0x007FFFFFu) | 0x3F800000u;
  double m = static_cast<double>(std::bit_cast<float>(bits));  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double s2 = s * s;
  double series = 1.0 / 15.0;
  for (int divisor = 13; divisor >= 1; divisor -= 2) series = series * s2 + 1.0 / divisor;
  return static_cast<float>(static_cast<double>(exponent) * 0.69314718055994531 + 2.0 * s * series);
}

// 1 / (1 + e^-x) within 4 ulp; NaN for NaN. No branches.
inline float sigmoid_of(float x) {
  const float e = exp_nonpositive(x < 0.0f ? x : -x);
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

// tanh x within 4 ulp; NaN for NaN. No branches. Source: the polynomial of Cephes' tanhf for small
// |x|, where 1 - e^-2|x| would cancel.
inline float tanh_of(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float e = exp_nonpositive(-2.0f * magnitude);
  const float far = (1.0f - e) / (1.0f + e);
  const float x2 = x * x;
  float p = -5.70498872745e-3f;
  p = p * x2 + 2.06390887954e-2f;
  p = p * x2 - 5.37397155531e-2f;
  p = p * x2 + 1.33314422036e-1f;
  p = p * x2 - 3.33332819422e-1f;
  const float near = p * (x2 * x) + x;
  return magnitude < 0.625f ? near : (x < 0.0f ? -far : far);
}

// erf x within 6e-7; NaN for NaN. No branches. Source: Abramowitz and Stegun, 7.1.26, whose own
// error is 1.5e-7.
inline float erf_of(float x) {
  const float magnitude = x < 0.0f ? -x : x;
  const float t = 1.0f / (1.0f + 0.3275911f * magnitude);
  float p = 1.061405429f;
  p = p * t - 1.453152027f;
  p = p * t + 1.421413741f;
  p = p * t - 0.284496736f;
  p = p * t + 0.254829592f;
  const float value = 1.0f - p * t * exp_nonpositive(-magnitude * magnitude);
  return x < 0.0f ? -value : value;
}

}  // namespace paceline
