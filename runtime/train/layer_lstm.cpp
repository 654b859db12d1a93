// Long short-term memory (Hochreiter and Schmidhuber 1997; forget gates: Gers et al. 2000):
//
//   c = f c + i g        i, f, o = sigmoid, g = tanh of W [x, h] + b;  f's b is 1 more
//   h = o tanh c
#include "runtime/train/recurrent.h"

namespace paceline {
namespace {

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  append_recurrent(Cell::kLstm, spec, tensors);
}

uint64_t work_floats(const LayerSpec& spec) { return recurrent_work_floats(Cell::kLstm, spec); }

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  recurrent_forward(Cell::kLstm, spec, pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  recurrent_backward(Cell::kLstm, spec, pass);
}

}  // namespace

const LayerType& lstm_layer() {
  static constexpr LayerType type = {.name = "lstm",
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
