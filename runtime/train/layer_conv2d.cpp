// Cross-correlation of an image with `filters` square kernels, with W
// [filters][channels / groups][kernel][kernel]. groups = channels makes it depthwise.
#include "runtime/train/convolution.h"
#include "runtime/train/gemm_layers.h"

namespace paceline {
namespace {

// Few channels a filter leave a matrix kernel nothing to do.
bool plain_only(const LayerSpec& spec) { return spec.groups != 1 || spec.dilation != 1; }

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  convolution_forward(convolution_2d(spec), pass);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  convolution_backward(convolution_2d(spec), pass);
}

uint64_t scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch) {
  return plain_only(spec) ? 0 : conv2d_scratch_floats(spec, kernels, batch);
}

void gemm_forward(const LayerSpec& spec, const GemmKernels& kernels, const ForwardPass& pass) {
  if (plain_only(spec)) return forward(spec, pass);
  conv2d_gemm_forward(spec, kernels, pass);
}

void gemm_backward(const LayerSpec& spec, const GemmKernels& kernels, const BackwardPass& pass) {
  if (plain_only(spec)) return backward(spec, pass);
  conv2d_gemm_backward(spec, kernels, pass);
}

}  // namespace

const LayerType& conv2d_layer() {
  static constexpr LayerType type = {.name = "conv2d",
                                     .keys = kConvolutionKeys,
                                     .backward_reads_input = true,
                                     .infer = infer_convolution_2d,
                                     .append_tensors = append_convolution_2d,
                                     .forward = forward,
                                     .backward = backward,
                                     .scratch_floats = scratch_floats,
                                     .gemm_forward = gemm_forward,
                                     .gemm_backward = gemm_backward};
  return type;
}

}  // namespace paceline
