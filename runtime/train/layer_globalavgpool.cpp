// The mean of each channel's plane: an image or a signal becomes one value a channel, flat.
#include <algorithm>

#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  if (spec.input_shape.size() != 3)
    return fail(Code::kInvalidArgument,
                "needs an image [channels, height, width] or what a conv1d gives, gets %s; put it "
                "before \"flatten\"",
                shape_text(spec.input_shape).c_str());
  spec.output_shape = {spec.input_shape[0]};
  return {};
}

size_t plane_of(const LayerSpec& spec) { return size_t{spec.input_shape[1]} * spec.input_shape[2]; }

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const size_t plane = plane_of(spec);
  const float share = 1.0f / static_cast<float>(plane);
  for (size_t i = 0; i < pass.output.size(); ++i) {
    LaneSum<16> sum;
    sum.add(pass.input.data() + i * plane, plane);
    pass.output[i] = sum.total() * share;
  }
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  const size_t plane = plane_of(spec);
  const float share = 1.0f / static_cast<float>(plane);
  for (size_t i = 0; i < pass.output_gradient.size(); ++i)
    std::fill_n(pass.input_gradient.data() + i * plane, plane, pass.output_gradient[i] * share);
}

}  // namespace

const LayerType& globalavgpool_layer() {
  static constexpr LayerType type = {
      .name = "globalavgpool", .infer = infer, .forward = forward, .backward = backward};
  return type;
}

}  // namespace paceline
