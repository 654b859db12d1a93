// y = x P(x), P the normal distribution (Hendrycks and Gimpel 2016, arXiv:1606.08415), by erf
// itself, not by the usual tanh. dx = dy (P(x) + x p(x)), p its density.
#include "runtime/train/layer.h"
#include "runtime/train/math.h"

namespace paceline {
namespace {

constexpr float kSqrtHalf = 0.707106781f;
constexpr float kPeak = 0.398942280f;  // p(0)

inline float normal(float x) { return 0.5f + 0.5f * erf_of(kSqrtHalf * x); }

void forward(const LayerSpec&, const ForwardPass& pass) {
  const float* __restrict x = pass.input.data();
  float* __restrict y = pass.output.data();
  const size_t count = pass.output.size();
  for (size_t i = 0; i < count; ++i) y[i] = x[i] * normal(x[i]);
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  const float* __restrict x = pass.input.data();
  const float* __restrict dy = pass.output_gradient.data();
  float* __restrict dx = pass.input_gradient.data();
  const size_t count = pass.input_gradient.size();
  for (size_t i = 0; i < count; ++i) {
    const float density = kPeak * exp_nonpositive(-0.5f * x[i] * x[i]);
    dx[i] = dy[i] * (normal(x[i]) + x[i] * density);
  }
}

}  // namespace

const LayerType& gelu_layer() {
  static constexpr LayerType type = {.name = "gelu",
                                     .backward_reads_input = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
