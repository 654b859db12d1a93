// Cross-correlation of a signal with `filters` kernels, with W [filters][channels /
// groups][kernel]: a convolution of an image of height 1, and its output is one.
#include "runtime/train/convolution.h"

namespace paceline {
namespace {

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  convolution_forward(convolution_1d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  convolution_backward(convolution_1d(spec), pass);
}

}  // namespace

const LayerType& conv1d_layer() {
  static constexpr LayerType type = {.name = "conv1d",
                                     .keys = kConvolutionKeys,
                                     .backward_reads_input = true,
                                     .infer = infer_convolution_1d,
                                     .append_tensors = append_convolution_1d,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
