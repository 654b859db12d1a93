// Normalises each of `groups` groups of channels of a row; a scale and a bias for each channel.
#include "runtime/train/normalization.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"groups", &LayerSpec::groups}};

Status infer(LayerSpec& spec) {
  const uint32_t channels = spec.input_shape[0];
  if (channels % spec.groups != 0)
    return fail(Code::kInvalidArgument, "groups %u must divide its %u channels", spec.groups,
                channels);
  const uint64_t features = feature_count(spec.input_shape);
  if (features == spec.groups)
    return fail(Code::kInvalidArgument,
                "groups of one value would all become zero; take fewer groups than %u",
                spec.groups);
  return keep_shape(spec);
}

Normalization normalization_of(const LayerSpec& spec) {
  const auto features = static_cast<size_t>(feature_count(spec.input_shape));
  return {spec.groups, features / spec.groups, features / spec.input_shape[0], spec.epsilon};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  append_normalization(spec, spec.input_shape[0], tensors);
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  normalization_forward(normalization_of(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  normalization_backward(normalization_of(spec), pass);
}

}  // namespace

const LayerType& group_norm_layer() {
  static constexpr LayerType type = {.name = "group_norm",
                                     .keys = kKeys,
                                     .fractions = kNormalizationFractions,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
