// The largest value or the mean of each window, in plain loops, of images and of signals: what the
// pooling layers have in common. Windows that would reach over the edge are left out.
#pragma once

#include <cstddef>

#include "runtime/train/layer.h"

namespace paceline {

inline constexpr LayerKey kPoolingKeys[] = {
    {"kernel", &LayerSpec::kernel},
    {.name = "stride", .value = &LayerSpec::stride, .required = false}};

struct Pooling {
  size_t plane() const { return height * width; }

  size_t channels, height, width;
  size_t output_height, output_width;
  size_t kernel_height, kernel_width;
  size_t stride_y, stride_x;
};

Status infer_pooling_1d(LayerSpec& spec);
Status infer_pooling_2d(LayerSpec& spec);
Pooling pooling_1d(const LayerSpec& spec);
Pooling pooling_2d(const LayerSpec& spec);

// The gradient goes to the first largest value in row order. Reads the forward pass's input.
void max_pooling_forward(const Pooling& g, const ForwardPass& pass);
void max_pooling_backward(const Pooling& g, const BackwardPass& pass);

void mean_pooling_forward(const Pooling& g, const ForwardPass& pass);
void mean_pooling_backward(const Pooling& g, const BackwardPass& pass);

}  // namespace paceline
