// y = tanh x. From the output, dx = dy (1 - y^2).
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"
#include "runtime/train/math.h"

namespace paceline {
namespace {

void forward(const LayerSpec&, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  for (float& y : pass.output) y = tanh_of(y);
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  backward_from_output(pass.output, pass.output_gradient, pass.input_gradient,
                       [](float y, float dy) { return dy * (1.0f - y * y); });
}

}  // namespace

const LayerType& tanh_layer() {
  static constexpr LayerType type = {.name = "tanh",
                                     .in_place = true,
                                     .backward_reads_output = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
