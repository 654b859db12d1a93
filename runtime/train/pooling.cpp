#include "runtime/train/pooling.h"

#include <algorithm>
#include <bit>

#include "runtime/base/check.h"

namespace paceline {

Status infer_pooling_2d(LayerSpec& spec) {
  if (spec.input_shape.size() != 3)
    return fail(Code::kInvalidArgument,
                "needs an image [channels, height, width], gets %s; put it before \"flatten\"",
                shape_text(spec.input_shape).c_str());
  const uint32_t height = spec.input_shape[1], width = spec.input_shape[2];
  if (spec.stride == 0) spec.stride = spec.kernel;
  if (spec.kernel > std::min(height, width))
    return fail(Code::kInvalidArgument, "kernel %u is larger than the image of %u x %u",
                spec.kernel, height, width);
  spec.output_shape = {spec.input_shape[0], (height - spec.kernel) / spec.stride + 1,
                       (width - spec.kernel) / spec.stride + 1};
  return {};
}

Status infer_pooling_1d(LayerSpec& spec) {
  PACELINE_ASSIGN(const Signal signal, signal_of(spec.input_shape));
  if (spec.stride == 0) spec.stride = spec.kernel;
  if (spec.kernel > signal.length)
    return fail(Code::kInvalidArgument, "kernel %u is longer than the signal of %u", spec.kernel,
                signal.length);
  spec.output_shape = {signal.channels, 1, (signal.length - spec.kernel) / spec.stride + 1};
  return {};
}

Pooling pooling_2d(const LayerSpec& spec) {
  return {.channels = spec.input_shape[0],
          .height = spec.input_shape[1],
          .width = spec.input_shape[2],
          .output_height = spec.output_shape[1],
          .output_width = spec.output_shape[2],
          .kernel_height = spec.kernel,
          .kernel_width = spec.kernel,
          .stride_y = spec.stride,
          .stride_x = spec.stride};
}

Pooling pooling_1d(const LayerSpec& spec) {
  const Result<Signal> signal = signal_of(spec.input_shape);
  PACELINE_CHECK(signal.has_value());
  return {.channels = signal->channels,
          .height = 1,
          .width = signal->length,
          .output_height = 1,
          .output_width = spec.output_shape[2],
          .kernel_height = 1,
          .kernel_width = spec.kernel,
          .stride_y = 1,
          .stride_x = spec.stride};
}

namespace {

// Offset of the window's first largest value from its corner. NaN is never larger.
size_t largest_in_window(const float* corner, const Pooling& g) {
  size_t best = 0;
  for (size_t y = 0; y < g.kernel_height; ++y)
    for (size_t x = 0; x < g.kernel_width; ++x)
      if (corner[y * g.width + x] > corner[best]) best = y * g.width + x;
  return best;
}

bool usual(const Pooling& g) {
  return g.kernel_height == 2 && g.kernel_width == 2 && g.stride_y == 2 && g.stride_x == 2;
}

// The usual window, without a loop in the loop.
void forward_2x2(const float* x, float* y, const Pooling& g) {
  for (size_t row = 0; row < g.output_height; ++row) {
    const float* upper = x + 2 * row * g.width;
    const float* lower = upper + g.width;
    for (size_t column = 0; column < g.output_width; ++column) {
      float best = upper[2 * column];
      best = upper[2 * column + 1] > best ? upper[2 * column + 1] : best;
      best = lower[2 * column] > best ? lower[2 * column] : best;
      best = lower[2 * column + 1] > best ? lower[2 * column + 1] : best;
      y[row * g.output_width + column] = best;
    }
  }
}

}  // namespace

void max_pooling_forward(const Pooling& g, const ForwardPass& pass) {
  const size_t output_plane = g.output_height * g.output_width;
  const size_t planes = pass.batch * g.channels;
  for (size_t plane = 0; plane < planes; ++plane) {
    const float* x = pass.input.data() + plane * g.plane();
    float* y = pass.output.data() + plane * output_plane;
    if (usual(g)) {
      forward_2x2(x, y, g);
      continue;
    }
    for (size_t row = 0; row < g.output_height; ++row)
      for (size_t column = 0; column < g.output_width; ++column) {
        const float* corner = x + row * g.stride_y * g.width + column * g.stride_x;
        *y++ = corner[largest_in_window(corner, g)];
      }
  }
}

namespace {

// value or +0, without a branch: which one of a window is largest can't be foretold.
float value_if(bool condition, float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & (0u - uint32_t{condition}));
}

void backward_2x2(const float* x, const float* dy, float* dx, const Pooling& g) {
  for (size_t row = 0; row < g.output_height; ++row) {
    const float* upper = x + 2 * row * g.width;
    const float* lower = upper + g.width;
    float* to_upper = dx + 2 * row * g.width;
    float* to_lower = to_upper + g.width;
    for (size_t column = 0; column < 2 * g.output_width; column += 2) {
      const float a = upper[column], b = upper[column + 1];
      const float c = lower[column], d = lower[column + 1];
      const bool right_above = b > a, right_below = d > c;
      const bool below = (right_below ? d : c) > (right_above ? b : a);
      const float value = *dy++;
      to_upper[column] = value_if(!below & !right_above, value);
      to_upper[column + 1] = value_if(!below & right_above, value);
      to_lower[column] = value_if(below & !right_below, value);
      to_lower[column + 1] = value_if(below & right_below, value);
    }
  }
}

// Windows may overlap, so gradients are added: by row and column of the output.
void backward_plane(const float* x, const float* dy, float* dx, const Pooling& g) {
  for (size_t row = 0; row < g.output_height; ++row)
    for (size_t column = 0; column < g.output_width; ++column) {
      const size_t corner = row * g.stride_y * g.width + column * g.stride_x;
      dx[corner + largest_in_window(x + corner, g)] += *dy++;
    }
}

}  // namespace

void max_pooling_backward(const Pooling& g, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  const size_t output_plane = g.output_height * g.output_width;
  const size_t planes = pass.batch * g.channels;
  for (size_t plane = 0; plane < planes; ++plane) {
    const float* x = pass.input.data() + plane * g.plane();
    const float* dy = pass.output_gradient.data() + plane * output_plane;
    float* dx = pass.input_gradient.data() + plane * g.plane();
    if (usual(g))
      backward_2x2(x, dy, dx, g);
    else
      backward_plane(x, dy, dx, g);
  }
}

// A window's values are added by row and column, then multiplied by 1 / their number.
void mean_pooling_forward(const Pooling& g, const ForwardPass& pass) {
  const float share = 1.0f / static_cast<float>(g.kernel_height * g.kernel_width);
  float* to = pass.output.data();
  for (size_t plane = 0; plane < pass.batch * g.channels; ++plane) {
    const float* from = pass.input.data() + plane * g.plane();
    for (size_t row = 0; row < g.output_height; ++row)
      for (size_t column = 0; column < g.output_width; ++column) {
        const float* corner = from + row * g.stride_y * g.width + column * g.stride_x;
        float sum = 0.0f;
        for (size_t y = 0; y < g.kernel_height; ++y)
          for (size_t x = 0; x < g.kernel_width; ++x) sum += corner[y * g.width + x];
        *to++ = sum * share;
      }
  }
}

void mean_pooling_backward(const Pooling& g, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  const float share = 1.0f / static_cast<float>(g.kernel_height * g.kernel_width);
  const float* dy = pass.output_gradient.data();
  for (size_t plane = 0; plane < pass.batch * g.channels; ++plane) {
    float* dx = pass.input_gradient.data() + plane * g.plane();
    for (size_t row = 0; row < g.output_height; ++row)
      for (size_t column = 0; column < g.output_width; ++column) {
        float* corner = dx + row * g.stride_y * g.width + column * g.stride_x;
        const float part = *dy++ * share;
        for (size_t y = 0; y < g.kernel_height; ++y)
          for (size_t x = 0; x < g.kernel_width; ++x) corner[y * g.width + x] += part;
      }
  }
}

}  // namespace paceline
