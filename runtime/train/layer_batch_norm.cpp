// Normalises each channel over the rows of a batch (Ioffe and Szegedy 2015, arXiv:1502.03167); a
// scale and a bias for each channel.
//
//   y = (1 + scale) (x - mean) / sqrt(variance + epsilon) + bias
//
// Learning takes mean and variance of the batch, evaluation those that the fleet has pooled
// (statistics.h). Departs from the paper in that the variance is that of the values seen, not an
// estimate of a larger population's. The scale is stored as in normalization.h.
#include <algorithm>
#include <cmath>

#include "runtime/train/loops.h"
#include "runtime/train/normalization.h"

namespace paceline {
namespace {

struct Planes {
  size_t channels = 0;
  size_t plane = 0;  // consecutive values of a channel in a row
};

Planes planes_of(const LayerSpec& spec) {
  const size_t channels = spec.input_shape[0];
  return {channels, static_cast<size_t>(feature_count(spec.input_shape)) / channels};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  const uint32_t channels = spec.input_shape[0];
  append_normalization(spec, channels, tensors);
  tensors.push_back({spec.name + ".statistics", TensorClass::kStatistic, {2, channels}});
}

// each(channel, first value of its plane), over the rows of a batch in order.
template <class Each>
void for_each_plane(const Planes& p, size_t batch, Each each) {
  for (size_t row = 0; row < batch; ++row)
    for (size_t channel = 0; channel < p.channels; ++channel)
      each(channel, (row * p.channels + channel) * p.plane);
}

void measure(const Planes& p, const ForwardPass& pass) {
  const std::span<float> means = pass.batch_statistics.first(p.channels);
  const std::span<float> variances = pass.batch_statistics.subspan(p.channels);
  const float share = 1.0f / static_cast<float>(pass.batch * p.plane);
  const float* x = pass.input.data();
  std::ranges::fill(pass.batch_statistics, 0.0f);
  for_each_plane(p, pass.batch, [&](size_t channel, size_t begin) {
    means[channel] += lane_total(p.plane, [&](size_t i) { return x[begin + i]; });
  });
  for (float& mean : means) mean *= share;
  for_each_plane(p, pass.batch, [&](size_t channel, size_t begin) {
    variances[channel] += lane_total(p.plane, [&, mean = means[channel]](size_t i) {
      const float off = x[begin + i] - mean;
      return off * off;
    });
  });
  for (float& variance : variances) variance *= share;
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const Planes p = planes_of(spec);
  if (!pass.batch_statistics.empty()) measure(p, pass);
  const std::span<const float> statistics =
      pass.batch_statistics.empty() ? pass.statistics : pass.batch_statistics;
  for_each_plane(p, pass.batch, [&](size_t channel, size_t begin) {
    const float mean = statistics[channel], variance = statistics[p.channels + channel];
    const float factor = (1.0f + pass.weight[channel]) / std::sqrt(variance + spec.epsilon);
    const float bias = pass.bias[channel];
    for (size_t i = begin; i < begin + p.plane; ++i)
      pass.output[i] = (pass.input[i] - mean) * factor + bias;
  });
}

// With h = (x - mean) / deviation, over the values of a channel:
//   dx = (dy - mean of dy - h * mean of dy h) (1 + scale) / deviation
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  const Planes p = planes_of(spec);
  const float* x = pass.input.data();
  const float* dy = pass.output_gradient.data();
  const auto mean_of = [&](size_t channel) { return pass.batch_statistics[channel]; };
  const auto inverse_of = [&](size_t channel) {
    return 1.0f / std::sqrt(pass.batch_statistics[p.channels + channel] + spec.epsilon);
  };
  std::ranges::fill(pass.weight_gradient, 0.0f);
  std::ranges::fill(pass.bias_gradient, 0.0f);
  for_each_plane(p, pass.batch, [&](size_t channel, size_t begin) {
    const float mean = mean_of(channel), inverse = inverse_of(channel);
    pass.bias_gradient[channel] += lane_total(p.plane, [&](size_t i) { return dy[begin + i]; });
    pass.weight_gradient[channel] += lane_total(
        p.plane, [&](size_t i) { return dy[begin + i] * ((x[begin + i] - mean) * inverse); });
  });
  if (pass.input_gradient.empty()) return;
  const float share = 1.0f / static_cast<float>(pass.batch * p.plane);
  for_each_plane(p, pass.batch, [&](size_t channel, size_t begin) {
    const float mean = mean_of(channel), inverse = inverse_of(channel);
    const float factor = (1.0f + pass.weight[channel]) * inverse;
    const float dy_mean = share * pass.bias_gradient[channel];
    const float dyh_mean = share * pass.weight_gradient[channel];
    for (size_t i = begin; i < begin + p.plane; ++i) {
      const float h = (x[i] - mean) * inverse;
      pass.input_gradient[i] = (dy[i] - dy_mean - h * dyh_mean) * factor;
    }
  });
}

}  // namespace

const LayerType& batch_norm_layer() {
  static constexpr LayerType type = {.name = "batch_norm",
                                     .fractions = kNormalizationFractions,
                                     .backward_reads_input = true,
                                     .infer = keep_shape,
                                     .append_tensors = append_tensors,
                                     .has_statistics = true,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
