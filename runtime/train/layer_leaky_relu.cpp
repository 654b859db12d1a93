// y = x above 0, slope x below; a slope above 0 keeps the sign, by which the gradient is known.
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

constexpr LayerFraction kFractions[] = {{"slope", &LayerSpec::slope, 0.01f, 1e-6f, 1.0f}};

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  const float slope = spec.slope;
  for (float& y : pass.output) y = y < 0.0f ? slope * y : y;
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  copy_unless_same(pass.output_gradient, pass.input_gradient);
  const float* __restrict y = pass.output.data();
  float* __restrict gradient = pass.input_gradient.data();
  const float slope = spec.slope;
  const size_t count = pass.input_gradient.size();
  for (size_t i = 0; i < count; ++i) {
    const float scaled = slope * gradient[i];
    gradient[i] = y[i] < 0.0f ? scaled : gradient[i];
  }
}

}  // namespace

const LayerType& leaky_relu_layer() {
  static constexpr LayerType type = {.name = "leaky_relu",
                                     .fractions = kFractions,
                                     .in_place = true,
                                     .backward_reads_output = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
