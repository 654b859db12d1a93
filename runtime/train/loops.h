// Inner loops whose order of additions is part of their meaning, so that every compiler and CPU
// gives the same bytes, and that still vectorise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace paceline {

// A sum in `lanes` partial sums that are folded in halves at the end.
template <size_t lanes>
class LaneSum {
 public:
  // Element i into lane i % lanes; `step` is the distance between elements of b.
  void add_products(const float* __restrict a, const float* __restrict b, size_t count,
                    size_t step = 1) {
    size_t i = 0;
    if (step == 1) {
      for (; i + lanes <= count; i += lanes)
        for (size_t lane = 0; lane < lanes; ++lane) sums_[lane] += a[i + lane] * b[i + lane];
    }
    for (; i < count; ++i) sums_[i % lanes] += a[i] * b[i * step];
  }
  void add(const float* values, size_t count) {
    size_t i = 0;
    for (; i + lanes <= count; i += lanes)
      for (size_t lane = 0; lane < lanes; ++lane) sums_[lane] += values[i + lane];
    for (; i < count; ++i) sums_[i % lanes] += values[i];
  }
  // Once.
  float total() {
    for (size_t half = lanes / 2; half > 0; half /= 2)
      for (size_t lane = 0; lane < half; ++lane) sums_[lane] += sums_[lane + half];
    return sums_[0];
  }

 private:
  float sums_[lanes] = {};
};

// The sum of value(i) in 16 lanes, element i in lane i % 16, folded in halves.
template <class Value>
float lane_total(size_t count, Value value) {
  constexpr size_t kLanes = 16;
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += value(i + lane);
  for (; i < count; ++i) sums[i % kLanes] += value(i);
  for (size_t half = kLanes / 2; half > 0; half /= 2)
    for (size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  return sums[0];
}

inline float dot(const float* a, const float* b, size_t count) {
  LaneSum<16> sum;
  sum.add_products(a, b, count);
  return sum.total();
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

// The backward pass of y = f(x) by value, from the output: dx = gradient_of(y, dy). On one array
// where it can be: the loop then has a single stream to read and write.
template <class GradientOf>
void backward_from_output(std::span<const float> output, std::span<const float> output_gradient,
                          std::span<float> input_gradient, GradientOf gradient_of) {
  if (input_gradient.empty()) return;
  copy_unless_same(output_gradient, input_gradient);
  const float* __restrict y = output.data();
  float* __restrict gradient = input_gradient.data();
  const size_t count = input_gradient.size();
  for (size_t i = 0; i < count; ++i) gradient[i] = gradient_of(y[i], gradient[i]);
}

}  // namespace paceline
