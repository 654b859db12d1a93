// A signal's channels become its steps, and its steps the channels: for rows that lie step by step,
// as most tables have them.
#include "runtime/train/layer.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  PACELINE_ASSIGN(const Signal signal, signal_of(spec.input_shape));
  spec.output_shape = {signal.length, 1, signal.channels};
  return {};
}

// [batch][channels][length] to [batch][length][channels].
void transpose(std::span<const float> from, size_t channels, size_t length, std::span<float> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t row = i / (channels * length), place = i % (channels * length);
    to[i] = from[row * channels * length + place % channels * length + place / channels];
  }
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  transpose(pass.input, spec.output_shape[2], spec.output_shape[0], pass.output);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  transpose(pass.output_gradient, spec.output_shape[0], spec.output_shape[2], pass.input_gradient);
}

}  // namespace

const LayerType& transpose_layer() {
  static constexpr LayerType type = {
      .name = "transpose", .infer = infer, .forward = forward, .backward = backward};
  return type;
}

}  // namespace paceline
