// Cross-correlation of an image with `filters` square kernels, with W
// [filters][channels][kernel][kernel].
#include <algorithm>

#include "runtime/train/gemm_layers.h"
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

// Bounds the padding too, so that a small image can't grow without limit.
constexpr uint32_t kKernelMax = 1024;

constexpr LayerKey kKeys[] = {
    {"filters", &LayerSpec::filters},
    {.name = "kernel", .value = &LayerSpec::kernel, .largest = kKernelMax},
    {.name = "stride", .value = &LayerSpec::stride, .required = false},
    {.name = "padding", .value = &LayerSpec::padding, .required = false, .smallest = 0}};

Status infer(LayerSpec& spec) {
  if (spec.input_shape.size() != 3)
    return fail(Code::kInvalidArgument,
                "needs an image [channels, height, width], gets %s; put it before \"flatten\", or "
                "give the model's input as an image",
                shape_text(spec.input_shape).c_str());
  if (spec.stride == 0) spec.stride = 1;
  // A wider border would only add outputs that see nothing but zeros.
  if (spec.padding >= spec.kernel)
    return fail(Code::kInvalidArgument, "padding %u must be smaller than kernel %u", spec.padding,
                spec.kernel);
  const uint64_t height = uint64_t{spec.input_shape[1]} + 2 * uint64_t{spec.padding};
  const uint64_t width = uint64_t{spec.input_shape[2]} + 2 * uint64_t{spec.padding};
  if (spec.kernel > std::min(height, width))
    return fail(Code::kInvalidArgument, "kernel %u is larger than the padded image of %llu x %llu",
                spec.kernel, static_cast<unsigned long long>(height),
                static_cast<unsigned long long>(width));
  spec.output_shape = {spec.filters,
                       static_cast<uint32_t>((height - spec.kernel) / spec.stride + 1),
                       static_cast<uint32_t>((width - spec.kernel) / spec.stride + 1)};
  return {};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  tensors.push_back({spec.name + ".weight",
                     TensorClass::kWeight,
                     {spec.filters, spec.input_shape[0], spec.kernel, spec.kernel}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.filters}});
}

// The part of an output row whose inputs lie inside the image, for one tap of the kernel.
struct RowSpan {
  size_t first = 0;  // output column
  size_t count = 0;
  size_t input_offset = 0;  // of the first one's input, in the channel's plane
};

RowSpan tap_row(const LayerSpec& spec, size_t output_row, size_t tap_y, size_t tap_x) {
  const size_t height = spec.input_shape[1], width = spec.input_shape[2];
  const size_t padding = spec.padding, stride = spec.stride;
  const size_t padded_y = output_row * stride + tap_y;
  if (padded_y < padding || padded_y - padding >= height) return {};
  const size_t first = tap_x >= padding ? 0 : (padding - tap_x + stride - 1) / stride;
  if (first * stride + tap_x >= padding + width) return {};
  const size_t last = (padding + width - 1 - tap_x) / stride;
  const size_t end = std::min<size_t>(last + 1, spec.output_shape[2]);
  if (first >= end) return {};
  return {first, end - first, (padded_y - padding) * width + first * stride + tap_x - padding};
}

// Calls visit(weight index, channel, tap_y, tap_x, filter) in the order of the weights.
template <class Visit>
void for_each_weight(const LayerSpec& spec, Visit visit) {
  size_t index = 0;
  for (size_t filter = 0; filter < spec.filters; ++filter)
    for (size_t channel = 0; channel < spec.input_shape[0]; ++channel)
      for (size_t tap_y = 0; tap_y < spec.kernel; ++tap_y)
        for (size_t tap_x = 0; tap_x < spec.kernel; ++tap_x)
          visit(index++, filter, channel, tap_y, tap_x);
}

// Each output starts as its bias; taps are added in the order of the weights.
void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const size_t input_plane = size_t{spec.input_shape[1]} * spec.input_shape[2];
  const size_t output_width = spec.output_shape[2];
  const size_t output_plane = spec.output_shape[1] * output_width;
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* x = pass.input.data() + row * spec.input_shape[0] * input_plane;
    float* y = pass.output.data() + row * spec.filters * output_plane;
    for (size_t filter = 0; filter < spec.filters; ++filter)
      std::fill_n(y + filter * output_plane, output_plane, pass.bias[filter]);
    for_each_weight(
        spec, [&](size_t index, size_t filter, size_t channel, size_t tap_y, size_t tap_x) {
          for (size_t output_row = 0; output_row < spec.output_shape[1]; ++output_row) {
            const RowSpan span = tap_row(spec, output_row, tap_y, tap_x);
            const float* from = x + channel * input_plane + span.input_offset;
            float* to = y + filter * output_plane + output_row * output_width + span.first;
            add_scaled(pass.weight[index], from, spec.stride, to, 1, span.count);
          }
        });
  }
}

// Rows of the batch are added in order; within one, output rows in order, each as a dot().
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  const size_t input_plane = size_t{spec.input_shape[1]} * spec.input_shape[2];
  const size_t output_width = spec.output_shape[2];
  const size_t output_plane = spec.output_shape[1] * output_width;
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch; ++row) {
    const size_t input_start = row * spec.input_shape[0] * input_plane;
    const float* dy = pass.output_gradient.data() + row * spec.filters * output_plane;
    for (size_t filter = 0; filter < spec.filters; ++filter)
      for (size_t i = 0; i < output_plane; ++i)
        pass.bias_gradient[filter] += dy[filter * output_plane + i];
    for_each_weight(spec, [&](size_t index, size_t filter, size_t channel, size_t tap_y,
                              size_t tap_x) {
      for (size_t output_row = 0; output_row < spec.output_shape[1]; ++output_row) {
        const RowSpan span = tap_row(spec, output_row, tap_y, tap_x);
        const float* dy_row = dy + filter * output_plane + output_row * output_width + span.first;
        const size_t offset = input_start + channel * input_plane + span.input_offset;
        pass.weight_gradient[index] +=
            dot(dy_row, pass.input.data() + offset, span.count, spec.stride);
        if (pass.input_gradient.empty()) continue;
        float* dx = pass.input_gradient.data() + offset;
        add_scaled(pass.weight[index], dy_row, 1, dx, spec.stride, span.count);
      }
    });
  }
}

}  // namespace

const LayerType& conv2d_layer() {
  static constexpr LayerType type = {.name = "conv2d",
                                     .keys = kKeys,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward,
                                     .scratch_floats = conv2d_scratch_floats,
                                     .gemm_forward = conv2d_gemm_forward,
                                     .gemm_backward = conv2d_gemm_backward};
  return type;
}

}  // namespace paceline
