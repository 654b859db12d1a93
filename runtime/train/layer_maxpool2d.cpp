// The largest value of each square window.
#include "runtime/train/pooling.h"

namespace paceline {
namespace {

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  max_pooling_forward(pooling_2d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  max_pooling_backward(pooling_2d(spec), pass);
}

}  // namespace

const LayerType& maxpool2d_layer() {
  static constexpr LayerType type = {.name = "maxpool2d",
                                     .keys = kPoolingKeys,
                                     .backward_reads_input = true,
                                     .infer = infer_pooling_2d,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
