// The mean of each square window.
#include "runtime/train/pooling.h"

namespace paceline {
namespace {

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  mean_pooling_forward(pooling_2d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  mean_pooling_backward(pooling_2d(spec), pass);
}

}  // namespace

const LayerType& avgpool2d_layer() {
  static constexpr LayerType type = {.name = "avgpool2d",
                                     .keys = kPoolingKeys,
                                     .infer = infer_pooling_2d,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
