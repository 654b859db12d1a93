#include "runtime/train/convolution.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

constexpr uint32_t kPaddedFeaturesMax = 1u << 25;

// Outputs along one axis, from a padded length and the inputs that a window spans there.
uint32_t outputs(uint64_t padded, uint64_t span, uint32_t stride) {
  return static_cast<uint32_t>((padded - span) / stride + 1);
}

// What the window spans of a side.
uint64_t span_of(const LayerSpec& spec) { return uint64_t{spec.kernel - 1} * spec.dilation + 1; }

std::string window_text(const LayerSpec& spec) {
  if (spec.dilation == 1) return format_text("kernel %u", spec.kernel);
  return format_text("kernel %u with dilation %u, %llu wide,", spec.kernel, spec.dilation,
                     static_cast<unsigned long long>(span_of(spec)));
}

Status check_keys(LayerSpec& spec, uint32_t channels) {
  for (uint32_t LayerSpec::*key : {&LayerSpec::stride, &LayerSpec::dilation, &LayerSpec::groups})
    if (spec.*key == 0) spec.*key = 1;
  if (channels % spec.groups != 0 || spec.filters % spec.groups != 0)
    return fail(Code::kInvalidArgument, "groups %u must divide its %u channels and %u filters",
                spec.groups, channels, spec.filters);
  // A wider border would only add outputs that see nothing but zeros.
  if (spec.dilation == 1 && spec.padding >= spec.kernel)
    return fail(Code::kInvalidArgument, "padding %u must be smaller than kernel %u", spec.padding,
                spec.kernel);
  if (spec.padding >= span_of(spec))
    return fail(Code::kInvalidArgument, "padding %u must be smaller than the %llu that %s spans",
                spec.padding, static_cast<unsigned long long>(span_of(spec)),
                format_text("kernel %u with dilation %u", spec.kernel, spec.dilation).c_str());
  return {};
}

// The outputs of one plane that a tap reaches inside the image, row by row.
class TapRows {
 public:
  // The tap lies `y` below and `x` right of the window's corner.
  TapRows(const Convolution& c, size_t y, size_t x)
      : height_(c.height),
        width_(c.width),
        output_width_(c.output_width),
        stride_(c.stride),
        padding_y_(c.padding_y),
        padding_x_(c.padding_x),
        y_(y),
        x_(x) {
    first_ = x >= padding_x_ ? 0 : (padding_x_ - x + stride_ - 1) / stride_;
    if (first_ * stride_ + x >= padding_x_ + width_) return;
    const size_t end = (padding_x_ + width_ - 1 - x) / stride_ + 1;
    count_ = std::min(end, output_width_) - std::min(first_, output_width_);
  }
  size_t count() const { return count_; }
  bool reaches(size_t output_row) const {
    const size_t padded = output_row * stride_ + y_;
    return count_ > 0 && padded >= padding_y_ && padded - padding_y_ < height_;
  }
  // Of the first output, and of its input, in their planes. Only where the row is reached.
  size_t output_offset(size_t output_row) const { return output_row * output_width_ + first_; }
  size_t input_offset(size_t output_row) const {
    return (output_row * stride_ + y_ - padding_y_) * width_ + first_ * stride_ + x_ - padding_x_;
  }

 private:
  size_t height_, width_, output_width_, stride_, padding_y_, padding_x_, y_, x_;
  size_t first_ = 0;
  size_t count_ = 0;
};

// Calls visit(index, filter, channel, tap rows) in the order of the weights.
template <class Visit>
void for_each_weight(const Convolution& c, Visit visit) {
  const size_t channels = c.channels / c.groups, filters = c.filters / c.groups;
  size_t index = 0;
  for (size_t filter = 0; filter < c.filters; ++filter)
    for (size_t channel = filter / filters * channels, i = 0; i < channels; ++i, ++channel)
      for (size_t y = 0; y < c.kernel_height; ++y)
        for (size_t x = 0; x < c.kernel_width; ++x)
          visit(index++, filter, channel, TapRows(c, y * c.dilation, x * c.dilation));
}

}  // namespace

Status infer_convolution_2d(LayerSpec& spec) {
  if (spec.input_shape.size() != 3)
    return fail(Code::kInvalidArgument,
                "needs an image [channels, height, width], gets %s; put it before \"flatten\", or "
                "give the model's input as an image",
                shape_text(spec.input_shape).c_str());
  PACELINE_TRY(check_keys(spec, spec.input_shape[0]));
  const uint64_t height = uint64_t{spec.input_shape[1]} + 2 * uint64_t{spec.padding};
  const uint64_t width = uint64_t{spec.input_shape[2]} + 2 * uint64_t{spec.padding};
  if (span_of(spec) > std::min(height, width))
    return fail(Code::kInvalidArgument, "%s is larger than the padded image of %llu x %llu",
                window_text(spec).c_str(), static_cast<unsigned long long>(height),
                static_cast<unsigned long long>(width));
  if (spec.input_shape[0] * height * width > kPaddedFeaturesMax)
    return fail(Code::kInvalidArgument, "its padded image has more than %u values",
                kPaddedFeaturesMax);
  spec.output_shape = {spec.filters, outputs(height, span_of(spec), spec.stride),
                       outputs(width, span_of(spec), spec.stride)};
  return {};
}

Status infer_convolution_1d(LayerSpec& spec) {
  PACELINE_ASSIGN(const Signal signal, signal_of(spec.input_shape));
  PACELINE_TRY(check_keys(spec, signal.channels));
  const uint64_t length = uint64_t{signal.length} + 2 * uint64_t{spec.padding};
  if (span_of(spec) > length)
    return fail(Code::kInvalidArgument, "%s is longer than the padded signal of %llu",
                window_text(spec).c_str(), static_cast<unsigned long long>(length));
  spec.output_shape = {spec.filters, 1, outputs(length, span_of(spec), spec.stride)};
  return {};
}

void append_convolution_2d(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  tensors.push_back({spec.name + ".weight",
                     TensorClass::kWeight,
                     {spec.filters, spec.input_shape[0] / spec.groups, spec.kernel, spec.kernel}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.filters}});
}

void append_convolution_1d(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  const uint32_t channels = static_cast<uint32_t>(convolution_1d(spec).channels);
  tensors.push_back({spec.name + ".weight",
                     TensorClass::kWeight,
                     {spec.filters, channels / spec.groups, spec.kernel}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.filters}});
}

Convolution convolution_2d(const LayerSpec& spec) {
  return {.channels = spec.input_shape[0],
          .height = spec.input_shape[1],
          .width = spec.input_shape[2],
          .filters = spec.filters,
          .groups = spec.groups,
          .kernel_height = spec.kernel,
          .kernel_width = spec.kernel,
          .stride = spec.stride,
          .dilation = spec.dilation,
          .padding_y = spec.padding,
          .padding_x = spec.padding,
          .output_height = spec.output_shape[1],
          .output_width = spec.output_shape[2]};
}

Convolution convolution_1d(const LayerSpec& spec) {
  const Result<Signal> signal = signal_of(spec.input_shape);
  PACELINE_CHECK(signal.has_value());
  return {.channels = signal->channels,
          .height = 1,
          .width = signal->length,
          .filters = spec.filters,
          .groups = spec.groups,
          .kernel_height = 1,
          .kernel_width = spec.kernel,
          .stride = spec.stride,
          .dilation = spec.dilation,
          .padding_y = 0,
          .padding_x = spec.padding,
          .output_height = 1,
          .output_width = spec.output_shape[2]};
}

// Each output starts as its bias; taps are added in the order of the weights.
void convolution_forward(const Convolution& c, const ForwardPass& pass) {
  const size_t input_plane = c.height * c.width;
  const size_t output_rows = c.output_height;
  const size_t output_plane = output_rows * c.output_width;
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* x = pass.input.data() + row * c.channels * input_plane;
    float* y = pass.output.data() + row * c.filters * output_plane;
    for (size_t filter = 0; filter < c.filters; ++filter)
      std::fill_n(y + filter * output_plane, output_plane, pass.bias[filter]);
    for_each_weight(c, [&](size_t index, size_t filter, size_t channel, const TapRows& rows) {
      for (size_t i = 0; i < output_rows; ++i)
        if (rows.reaches(i))
          add_scaled(pass.weight[index], x + channel * input_plane + rows.input_offset(i), c.stride,
                     y + filter * output_plane + rows.output_offset(i), 1, rows.count());
    });
  }
}

// Rows of the batch are added in order. Within one, a weight's gradient is a sum in 8 lanes, lane
// by the place in the output row, and an input's gradient is added in the order of the weights.
void convolution_backward(const Convolution& c, const BackwardPass& pass) {
  const size_t input_plane = c.height * c.width;
  const size_t output_rows = c.output_height;
  const size_t output_plane = output_rows * c.output_width;
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch; ++row) {
    const size_t input_start = row * c.channels * input_plane;
    const float* x = pass.input.data() + input_start;
    const float* dy = pass.output_gradient.data() + row * c.filters * output_plane;
    float* dx = pass.input_gradient.empty() ? nullptr : pass.input_gradient.data() + input_start;
    for (size_t filter = 0; filter < c.filters; ++filter) {
      LaneSum<16> sum;
      sum.add(dy + filter * output_plane, output_plane);
      pass.bias_gradient[filter] += sum.total();
    }
    for_each_weight(c, [&](size_t index, size_t filter, size_t channel, const TapRows& rows) {
      LaneSum<8> sum;
      for (size_t i = 0; i < output_rows; ++i) {
        if (!rows.reaches(i)) continue;
        const float* from = dy + filter * output_plane + rows.output_offset(i);
        const size_t offset = channel * input_plane + rows.input_offset(i);
        sum.add_products(from, x + offset, rows.count(), c.stride);
        if (dx) add_scaled(pass.weight[index], from, 1, dx + offset, c.stride, rows.count());
      }
      pass.weight_gradient[index] += sum.total();
    });
  }
}

}  // namespace paceline
