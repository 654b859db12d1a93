// The sum of its inputs, which have one shape, in the order in which they are named.
#include <algorithm>

#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  for (const JoinedInput& input : spec.joined)
    if (input.shape != spec.input_shape)
      return fail(Code::kInvalidArgument,
                  "takes %s from '%s' and %s from '%s'; what it adds must have one shape",
                  shape_text(spec.input_shape).c_str(), spec.joined[0].name.c_str(),
                  shape_text(input.shape).c_str(), input.name.c_str());
  return keep_shape(spec);
}

void forward(const LayerSpec&, const ForwardPass& pass) {
  if (pass.features_before == 0)
    std::copy(pass.input.begin(), pass.input.end(), pass.output.begin());
  else
    add_scaled(1.0f, pass.input.data(), pass.output.data(), pass.output.size());
}

void backward(const LayerSpec&, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  std::copy(pass.output_gradient.begin(), pass.output_gradient.end(), pass.input_gradient.begin());
}

}  // namespace

const LayerType& add_layer() {
  static constexpr LayerType type = {
      .name = "add", .joins = true, .infer = infer, .forward = forward, .backward = backward};
  return type;
}

}  // namespace paceline
