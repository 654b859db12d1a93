// Cross-correlation in plain loops, of images and of signals: what conv1d and conv2d have in
// common.
#pragma once

#include <cstddef>

#include "runtime/train/layer.h"

namespace paceline {

// Bounds the padding too, so that a small image can't grow without limit.
inline constexpr uint32_t kConvolutionKernelMax = 1024;

inline constexpr LayerKey kConvolutionKeys[] = {
    {"filters", &LayerSpec::filters},
    {.name = "kernel", .value = &LayerSpec::kernel, .largest = kConvolutionKernelMax},
    {.name = "stride", .value = &LayerSpec::stride, .required = false},
    {.name = "padding", .value = &LayerSpec::padding, .required = false, .smallest = 0},
    {.name = "dilation", .value = &LayerSpec::dilation, .required = false, .largest = 1024},
    {.name = "groups", .value = &LayerSpec::groups, .required = false}};

struct Convolution {
  size_t channels, height, width;
  size_t filters, groups;
  size_t kernel_height, kernel_width;
  size_t stride, dilation, padding_y, padding_x;
  size_t output_height, output_width;
};

// Entries of layer.h. The first filters / groups filters see the first channels / groups channels,
// and so on.
Status infer_convolution_1d(LayerSpec& spec);
Status infer_convolution_2d(LayerSpec& spec);
void append_convolution_1d(const LayerSpec& spec, std::vector<TensorSpec>& tensors);
void append_convolution_2d(const LayerSpec& spec, std::vector<TensorSpec>& tensors);

Convolution convolution_1d(const LayerSpec& spec);
Convolution convolution_2d(const LayerSpec& spec);

void convolution_forward(const Convolution& c, const ForwardPass& pass);
void convolution_backward(const Convolution& c, const BackwardPass& pass);

}  // namespace paceline
