// y = max(x, 0). The gradient at 0 is 0.
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

// Both work on one array where they can: the loop then has a single stream to read and write.
// Selects by comparison, never by float max: NaN passes through, -0 becomes +0.
void forward(const LayerSpec&, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  for (float& y : pass.output) y = y <= 0.0f ? 0.0f : y;
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  copy_unless_same(pass.output_gradient, pass.input_gradient);
  const float* __restrict y = pass.output.data();
  float* __restrict gradient = pass.input_gradient.data();
  const size_t count = pass.input_gradient.size();
  for (size_t i = 0; i < count; ++i) {
    const float kept = gradient[i];
    gradient[i] = y[i] == 0.0f ? 0.0f : kept;
  }
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
