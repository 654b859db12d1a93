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
  const float slope = spec.slope;
  backward_from_output(pass.output, pass.output_gradient, pass.input_gradient,
                       [=](float y, float dy) { return y < 0.0f ? slope * dy : dy; });
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
