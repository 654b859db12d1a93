// y = W x + b, with W [units][features].
#include <algorithm>

#include "runtime/train/gemm_layers.h"
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"units", &LayerSpec::units}};

Status infer(LayerSpec& spec) {
  if (spec.input_shape.size() != 1)
    return fail(Code::kInvalidArgument,
                "needs a flat input, gets %s; put a layer of type \"flatten\" before it",
                shape_text(spec.input_shape).c_str());
  spec.output_shape = {spec.units};
  return {};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  tensors.push_back(
      {spec.name + ".weight", TensorClass::kWeight, {spec.units, spec.input_shape[0]}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.units}});
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const size_t features = spec.input_shape[0], units = spec.units;
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* x = pass.input.data() + row * features;
    float* y = pass.output.data() + row * units;
    for (size_t unit = 0; unit < units; ++unit)
      y[unit] = pass.bias[unit] + dot(pass.weight.data() + unit * features, x, features);
  }
}

// Rows of the batch are added in order, units in order.
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  const size_t features = spec.input_shape[0], units = spec.units;
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* x = pass.input.data() + row * features;
    const float* dy = pass.output_gradient.data() + row * units;
    for (size_t unit = 0; unit < units; ++unit) {
      pass.bias_gradient[unit] += dy[unit];
      add_scaled(dy[unit], x, pass.weight_gradient.data() + unit * features, features);
      if (!pass.input_gradient.empty())
        add_scaled(dy[unit], pass.weight.data() + unit * features,
                   pass.input_gradient.data() + row * features, features);
    }
  }
}

}  // namespace

const LayerType& dense_layer() {
  static constexpr LayerType type = {.name = "dense",
                                     .keys = kKeys,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward,
                                     .scratch_floats = dense_scratch_floats,
                                     .gemm_forward = dense_gemm_forward,
                                     .gemm_backward = dense_gemm_backward};
  return type;
}

}  // namespace paceline
