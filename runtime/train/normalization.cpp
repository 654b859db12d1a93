#include "runtime/train/normalization.h"

#include <algorithm>
#include <cmath>

#include "runtime/train/loops.h"

namespace paceline {
namespace {

struct Moments {
  float mean = 0;
  float inverse_deviation = 0;
};

Moments moments_of(const float* x, const Normalization& n) {
  const float share = 1.0f / static_cast<float>(n.group);
  const float mean = share * lane_total(n.group, [x](size_t i) { return x[i]; });
  const float variance = share * lane_total(n.group, [x, mean](size_t i) {
                           const float off = x[i] - mean;
                           return off * off;
                         });
  return {mean, 1.0f / std::sqrt(variance + n.epsilon)};
}

}  // namespace

void append_normalization(const LayerSpec& spec, uint32_t scales,
                          std::vector<TensorSpec>& tensors) {
  tensors.push_back({spec.name + ".scale", TensorClass::kBias, {scales}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {scales}});
}

void normalization_forward(const Normalization& n, const ForwardPass& pass) {
  for (size_t index = 0; index < pass.batch * n.groups; ++index) {
    const float* x = pass.input.data() + index * n.group;
    float* y = pass.output.data() + index * n.group;
    const Moments moments = moments_of(x, n);
    const size_t first = index % n.groups * n.group;  // in its row
    for (size_t i = 0; i < n.group; i += n.per_scale) {
      const size_t parameter = (first + i) / n.per_scale;
      const float factor = moments.inverse_deviation * (1.0f + pass.weight[parameter]);
      const float bias = pass.bias[parameter];
      for (size_t j = i; j < i + n.per_scale; ++j) y[j] = (x[j] - moments.mean) * factor + bias;
    }
  }
}

// With h = (x - mean) / deviation and g = dy (1 + scale):
//   dx = (g - mean of g - h * mean of g h) / deviation
// Mean and deviation are computed again: to keep them would cost memory between the passes.
void normalization_backward(const Normalization& n, const BackwardPass& pass) {
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  const float share = 1.0f / static_cast<float>(n.group);
  for (size_t index = 0; index < pass.batch * n.groups; ++index) {
    const float* x = pass.input.data() + index * n.group;
    const float* dy = pass.output_gradient.data() + index * n.group;
    const Moments moments = moments_of(x, n);
    const float mean = moments.mean, inverse = moments.inverse_deviation;
    const size_t first = index % n.groups * n.group;
    float sum = 0.0f, product_sum = 0.0f;
    for (size_t i = 0; i < n.group; i += n.per_scale) {
      const auto h = [&, from = i](size_t j) { return (x[from + j] - mean) * inverse; };
      const float dy_sum = lane_total(n.per_scale, [&](size_t j) { return dy[i + j]; });
      const float dyh_sum = lane_total(n.per_scale, [&](size_t j) { return dy[i + j] * h(j); });
      const size_t parameter = (first + i) / n.per_scale;
      pass.bias_gradient[parameter] += dy_sum;
      pass.weight_gradient[parameter] += dyh_sum;
      const float factor = 1.0f + pass.weight[parameter];
      sum += factor * dy_sum;
      product_sum += factor * dyh_sum;
    }
    if (pass.input_gradient.empty()) continue;
    float* dx = pass.input_gradient.data() + index * n.group;
    const float g_mean = share * sum, gh_mean = share * product_sum;
    for (size_t i = 0; i < n.group; ++i) {
      const float g = dy[i] * (1.0f + pass.weight[(first + i) / n.per_scale]);
      const float h = (x[i] - mean) * inverse;
      dx[i] = (g - g_mean - h * gh_mean) * inverse;
    }
  }
}

}  // namespace paceline
