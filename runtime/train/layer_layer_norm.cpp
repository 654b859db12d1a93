// Normalises each row as a whole; a scale and a bias for each value.
#include "runtime/train/normalization.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  if (feature_count(spec.input_shape) == 1)
    return fail(Code::kInvalidArgument, "needs more than one value a row: one would become zero");
  return keep_shape(spec);
}

Normalization normalization_of(const LayerSpec& spec) {
  return {1, static_cast<size_t>(feature_count(spec.input_shape)), 1, spec.epsilon};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  append_normalization(spec, static_cast<uint32_t>(feature_count(spec.input_shape)), tensors);
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  normalization_forward(normalization_of(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  normalization_backward(normalization_of(spec), pass);
}

}  // namespace

const LayerType& layer_norm_layer() {
  static constexpr LayerType type = {.name = "layer_norm",
                                     .fractions = kNormalizationFractions,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
