// The mean of each window of a signal.
#include "runtime/train/pooling.h"

namespace paceline {
namespace {

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  mean_pooling_forward(pooling_1d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  mean_pooling_backward(pooling_1d(spec), pass);
}

}  // namespace

const LayerType& avgpool1d_layer() {
  static constexpr LayerType type = {.name = "avgpool1d",
                                     .keys = kPoolingKeys,
                                     .infer = infer_pooling_1d,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
