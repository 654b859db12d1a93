// The largest value of each window of a signal.
#include "runtime/train/pooling.h"

namespace paceline {
namespace {

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  max_pooling_forward(pooling_1d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  max_pooling_backward(pooling_1d(spec), pass);
}

}  // namespace

const LayerType& maxpool1d_layer() {
  static constexpr LayerType type = {.name = "maxpool1d",
                                     .keys = kPoolingKeys,
                                     .backward_reads_input = true,
                                     .infer = infer_pooling_1d,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
