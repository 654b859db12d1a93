// Its inputs one behind the other: the channels of images and signals, the values of flat rows.
#include <algorithm>

#include "runtime/train/layer.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  spec.output_shape = spec.input_shape;
  spec.output_shape[0] = 0;
  for (const JoinedInput& input : spec.joined) {
    if (!std::equal(input.shape.begin() + 1, input.shape.end(), spec.input_shape.begin() + 1,
                    spec.input_shape.end()))
      return fail(Code::kInvalidArgument,
                  "takes %s from '%s' and %s from '%s'; they may differ in channels only",
                  shape_text(spec.input_shape).c_str(), spec.joined[0].name.c_str(),
                  shape_text(input.shape).c_str(), input.name.c_str());
    spec.output_shape[0] += input.shape[0];
  }
  return {};
}

void forward(const LayerSpec&, const ForwardPass& pass) {
  const size_t features = pass.input.size() / pass.batch, joined = pass.output.size() / pass.batch;
  for (size_t row = 0; row < pass.batch; ++row)
    std::copy_n(pass.input.data() + row * features, features,
                pass.output.data() + row * joined + pass.features_before);
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  const size_t features = pass.input_gradient.size() / pass.batch;
  const size_t joined = pass.output_gradient.size() / pass.batch;
  for (size_t row = 0; row < pass.batch; ++row)
    std::copy_n(pass.output_gradient.data() + row * joined + pass.features_before, features,
                pass.input_gradient.data() + row * features);
}

}  // namespace

const LayerType& concat_layer() {
  static constexpr LayerType type = {
      .name = "concat", .joins = true, .infer = infer, .forward = forward, .backward = backward};
  return type;
}

}  // namespace paceline
