// Gated recurrent unit (Cho et al. 2014), with the reset gate behind the recurrent product, as
// cuDNN and PyTorch have it:
//
//   n = tanh(W x + b + r (U h + d))     r, z = sigmoid of W [x, h] + b
//   h = (1 - z) n + z h
#include "runtime/train/recurrent.h"

namespace paceline {
namespace {

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  append_recurrent(Cell::kGru, spec, tensors);
}

uint64_t work_floats(const LayerSpec& spec) { return recurrent_work_floats(Cell::kGru, spec); }

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  recurrent_forward(Cell::kGru, spec, pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  recurrent_backward(Cell::kGru, spec, pass);
}

}  // namespace

const LayerType& gru_layer() {
  static constexpr LayerType type = {.name = "gru",
                                     .keys = kRecurrentKeys,
                                     .backward_reads_input = true,
                                     .infer = infer_recurrent,
                                     .append_tensors = append_tensors,
                                     .work_floats = work_floats,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
