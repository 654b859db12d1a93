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
constexpr uint32_t kPaddedFeaturesMax = 1u << 25;

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
  if (spec.input_shape[0] * height * width > kPaddedFeaturesMax)
    return fail(Code::kInvalidArgument, "its padded image has more than %u values",
                kPaddedFeaturesMax);
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

// The outputs of one plane that a tap reaches inside the image, row by row.
class TapRows {
 public:
  TapRows(const LayerSpec& spec, size_t tap_y, size_t tap_x)
      : height_(spec.input_shape[1]),
        width_(spec.input_shape[2]),
        output_width_(spec.output_shape[2]),
        stride_(spec.stride),
        padding_(spec.padding),
        tap_y_(tap_y),
        tap_x_(tap_x) {
    first_ = tap_x >= padding_ ? 0 : (padding_ - tap_x + stride_ - 1) / stride_;
    if (first_ * stride_ + tap_x >= padding_ + width_) return;
    const size_t end = (padding_ + width_ - 1 - tap_x) / stride_ + 1;
    count_ = std::min(end, output_width_) - std::min(first_, output_width_);
  }
  size_t count() const { return count_; }
  bool reaches(size_t output_row) const {
    const size_t padded = output_row * stride_ + tap_y_;
    return count_ > 0 && padded >= padding_ && padded - padding_ < height_;
  }
  // Of the first output, and of its input, in their planes. Only where the row is reached.
  size_t output_offset(size_t output_row) const { return output_row * output_width_ + first_; }
  size_t input_offset(size_t output_row) const {
    return (output_row * stride_ + tap_y_ - padding_) * width_ + first_ * stride_ + tap_x_ -
           padding_;
  }

 private:
  size_t height_, width_, output_width_, stride_, padding_, tap_y_, tap_x_;
  size_t first_ = 0;
  size_t count_ = 0;
};

// Calls visit(index, filter, channel, tap rows) in the order of the weights.
template <class Visit>
void for_each_weight(const LayerSpec& spec, Visit visit) {
  size_t index = 0;
  for (size_t filter = 0; filter < spec.filters; ++filter)
    for (size_t channel = 0; channel < spec.input_shape[0]; ++channel)
      for (size_t tap_y = 0; tap_y < spec.kernel; ++tap_y)
        for (size_t tap_x = 0; tap_x < spec.kernel; ++tap_x)
          visit(index++, filter, channel, TapRows(spec, tap_y, tap_x));
}

// Each output starts as its bias; taps are added in the order of the weights.
void forward(const LayerSpec& spec, const ForwardPass& pass) {
  const size_t input_plane = size_t{spec.input_shape[1]} * spec.input_shape[2];
  const size_t output_rows = spec.output_shape[1];
  const size_t output_plane = output_rows * spec.output_shape[2];
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* x = pass.input.data() + row * spec.input_shape[0] * input_plane;
    float* y = pass.output.data() + row * spec.filters * output_plane;
    for (size_t filter = 0; filter < spec.filters; ++filter)
      std::fill_n(y + filter * output_plane, output_plane, pass.bias[filter]);
    for_each_weight(spec, [&](size_t index, size_t filter, size_t channel, const TapRows& rows) {
      for (size_t i = 0; i < output_rows; ++i)
        if (rows.reaches(i))
          add_scaled(pass.weight[index], x + channel * input_plane + rows.input_offset(i),
                     spec.stride, y + filter * output_plane + rows.output_offset(i), 1,
                     rows.count());
    });
  }
}

// Rows of the batch are added in order. Within one, a weight's gradient is a sum in 8 lanes, lane
// by the place in the output row, and an input's gradient is added in the order of the weights.
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  const size_t input_plane = size_t{spec.input_shape[1]} * spec.input_shape[2];
  const size_t output_rows = spec.output_shape[1];
  const size_t output_plane = output_rows * spec.output_shape[2];
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch; ++row) {
    const size_t input_start = row * spec.input_shape[0] * input_plane;
    const float* x = pass.input.data() + input_start;
    const float* dy = pass.output_gradient.data() + row * spec.filters * output_plane;
    float* dx = pass.input_gradient.empty() ? nullptr : pass.input_gradient.data() + input_start;
    for (size_t filter = 0; filter < spec.filters; ++filter) {
      LaneSum<16> sum;
      sum.add(dy + filter * output_plane, output_plane);
      pass.bias_gradient[filter] += sum.total();
    }
    for_each_weight(spec, [&](size_t index, size_t filter, size_t channel, const TapRows& rows) {
      LaneSum<8> sum;
      for (size_t i = 0; i < output_rows; ++i) {
        if (!rows.reaches(i)) continue;
        const float* from = dy + filter * output_plane + rows.output_offset(i);
        const size_t offset = channel * input_plane + rows.input_offset(i);
        sum.add_products(from, x + offset, rows.count(), spec.stride);
        if (dx) add_scaled(pass.weight[index], from, 1, dx + offset, spec.stride, rows.count());
      }
      pass.weight_gradient[index] += sum.total();
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
