// Inner loops whose order of additions is part of their meaning, so that every compiler and CPU
// gives the same bytes, and that still vectorise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace paceline {

// Sixteen partial sums, element i into sum i % 16, then folded in halves. `step` is the distance
// between elements of b.
inline float dot(const float* __restrict a, const float* __restrict b, size_t count,
                 size_t step = 1) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  if (step == 1) {
    for (; i + kLanes <= count; i += kLanes)
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[i % kLanes] += a[i] * b[i * step];
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

// y += factor * x
inline void add_scaled(float factor, const float* __restrict x, float* __restrict y, size_t count) {
  for (size_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

// The same over every x_step-th and y_step-th element.
inline void add_scaled(float factor, const float* __restrict x, size_t x_step, float* __restrict y,
                       size_t y_step, size_t count) {
  if (x_step == 1 && y_step == 1) return add_scaled(factor, x, y, count);
  for (size_t i = 0; i < count; ++i) y[i * y_step] += factor * x[i * x_step];
}

inline void copy_unless_same(std::span<const float> from, std::span<float> to) {
  if (from.data() != to.data()) std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace paceline
