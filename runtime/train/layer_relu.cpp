// y = max(x, 0). The gradient at 0 is 0.
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

// Selects by comparison, never by float max: NaN passes through, -0 becomes +0.
void forward(const LayerSpec&, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  for (float& y : pass.output) y = y <= 0.0f ? 0.0f : y;
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  backward_from_output(pass.output, pass.output_gradient, pass.input_gradient,
                       [](float y, float dy) { return y == 0.0f ? 0.0f : dy; });
}

}  // namespace

const LayerType& relu_layer() {
  static constexpr LayerType type = {.name = "relu",
                                     .in_place = true,
                                     .backward_reads_output = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
