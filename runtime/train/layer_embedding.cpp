// A row of whole numbers becomes a signal: each number picks one of `entries` vectors of `units`
// values, and a bias is added. Numbers are rounded; those outside 0 to entries - 1 count as the
// nearest that is inside. The gradient is written in full, so a step costs as much as the table is
// large.
#include <algorithm>

#include "runtime/train/layer.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"entries", &LayerSpec::entries}, {"units", &LayerSpec::units}};

Status infer(LayerSpec& spec) {
  if (spec.input_shape.size() != 1)
    return fail(Code::kInvalidArgument,
                "needs a flat input of whole numbers, gets %s; put it first, or \"flatten\" before "
                "it",
                shape_text(spec.input_shape).c_str());
  spec.output_shape = {spec.units, 1, spec.input_shape[0]};
  return {};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  tensors.push_back({spec.name + ".weight", TensorClass::kWeight, {spec.entries, spec.units}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.units}});
}

// Where the vector begins that x picks; NaN picks the first.
size_t place_of(const LayerSpec& spec, float x) {
  const auto last = static_cast<float>(spec.entries - 1);
  const uint32_t entry = x >= last   ? spec.entries - 1
                         : x >= 0.5f ? static_cast<uint32_t>(x + 0.5f)
                                     : 0;
  return size_t{entry} * spec.units;
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const size_t length = spec.input_shape[0], units = spec.units;
  for (size_t i = 0; i < pass.input.size(); ++i) {
    const float* entry = pass.weight.data() + place_of(spec, pass.input[i]);
    float* y = pass.output.data() + i / length * length * units + i % length;
    for (size_t u = 0; u < units; ++u) y[u * length] = entry[u] + pass.bias[u];
  }
}

// A number has no gradient.
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  const size_t length = spec.input_shape[0], units = spec.units;
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  for (size_t i = 0; i < pass.input.size(); ++i) {
    const float* dy = pass.output_gradient.data() + i / length * length * units + i % length;
    float* entry = pass.weight_gradient.data() + place_of(spec, pass.input[i]);
    for (size_t u = 0; u < units; ++u) {
      entry[u] += dy[u * length];
      pass.bias_gradient[u] += dy[u * length];
    }
  }
}

}  // namespace

const LayerType& embedding_layer() {
  static constexpr LayerType type = {.name = "embedding",
                                     .keys = kKeys,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
