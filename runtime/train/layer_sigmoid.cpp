// y = 1 / (1 + e^-x). From the output, dx = dy y (1 - y).
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"
#include "runtime/train/math.h"

namespace paceline {
namespace {

void forward(const LayerSpec&, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  for (float& y : pass.output) y = sigmoid_of(y);
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  backward_from_output(pass.output, pass.output_gradient, pass.input_gradient,
                       [](float y, float dy) { return dy * (y * (1.0f - y)); });
}

}  // namespace

const LayerType& sigmoid_layer() {
  static constexpr LayerType type = {.name = "sigmoid",
                                     .in_place = true,
                                     .backward_reads_output = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
