// The largest value of each square window; windows that would reach over the edge are left out.
// The gradient goes to the first largest one in row order.
#include <algorithm>
#include <bit>

#include "runtime/train/layer.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"kernel", &LayerSpec::kernel},
                              {.name = "stride", .value = &LayerSpec::stride, .required = false}};

Status infer(LayerSpec& spec) {
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

struct Geometry {
  explicit Geometry(const LayerSpec& spec)
      : width(spec.input_shape[2]),
        plane(size_t{spec.input_shape[1]} * width),
        output_height(spec.output_shape[1]),
        output_width(spec.output_shape[2]),
        kernel(spec.kernel),
        stride(spec.stride) {}
  size_t width, plane, output_height, output_width, kernel, stride;
};

// Offset of the window's first largest value from its corner. NaN is never larger.
size_t largest_in_window(const float* corner, const Geometry& g) {
  size_t best = 0;
  for (size_t y = 0; y < g.kernel; ++y)
    for (size_t x = 0; x < g.kernel; ++x)
      if (corner[y * g.width + x] > corner[best]) best = y * g.width + x;
  return best;
}

// The usual window, without a loop in the loop.
void forward_2x2(const float* x, float* y, const Geometry& g) {
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

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const Geometry g(spec);
  const size_t output_plane = g.output_height * g.output_width;
  const size_t planes = pass.batch * spec.input_shape[0];
  for (size_t plane = 0; plane < planes; ++plane) {
    const float* x = pass.input.data() + plane * g.plane;
    float* y = pass.output.data() + plane * output_plane;
    if (g.kernel == 2 && g.stride == 2) {
      forward_2x2(x, y, g);
      continue;
    }
    for (size_t row = 0; row < g.output_height; ++row)
      for (size_t column = 0; column < g.output_width; ++column) {
        const float* corner = x + (row * g.width + column) * g.stride;
        *y++ = corner[largest_in_window(corner, g)];
      }
  }
}

// value or +0, without a branch: which one of a window is largest can't be foretold.
float value_if(bool condition, float value) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & (0u - uint32_t{condition}));
}

void backward_2x2(const float* x, const float* dy, float* dx, const Geometry& g) {
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
void backward_plane(const float* x, const float* dy, float* dx, const Geometry& g) {
  for (size_t row = 0; row < g.output_height; ++row)
    for (size_t column = 0; column < g.output_width; ++column) {
      const size_t corner = (row * g.width + column) * g.stride;
      dx[corner + largest_in_window(x + corner, g)] += *dy++;
    }
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  const Geometry g(spec);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  const size_t output_plane = g.output_height * g.output_width;
  const size_t planes = pass.batch * spec.input_shape[0];
  for (size_t plane = 0; plane < planes; ++plane) {
    const float* x = pass.input.data() + plane * g.plane;
    const float* dy = pass.output_gradient.data() + plane * output_plane;
    float* dx = pass.input_gradient.data() + plane * g.plane;
    if (g.kernel == 2 && g.stride == 2)
      backward_2x2(x, dy, dx, g);
    else
      backward_plane(x, dy, dx, g);
  }
}

}  // namespace

const LayerType& maxpool2d_layer() {
  static constexpr LayerType type = {.name = "maxpool2d",
                                     .keys = kKeys,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
