// y = W^T x + b of rows of which only what is not 0 is told: [2][n], places and then values, zeros
// behind. W is [entries][units], so that a feature's weights lie together: forward, backward and
// the optimizer's step touch those of the batch's features and no others.
//
// A place is a whole number below 2^24, which float32 holds exactly; the data's reader bounds it.
// Where this layer gives the net's answers its weights start at zero: features that a board never
// sees then say nothing.
#include <algorithm>

#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"entries", &LayerSpec::entries}, {"units", &LayerSpec::units}};

Status infer(LayerSpec& spec) {
  const std::span<const uint32_t> shape = spec.input_shape;
  if (shape.size() != 3 || shape[0] != 1 || shape[1] != 2)
    return fail(Code::kInvalidArgument,
                "takes rows of non-zeros, gets %s; put it first, with model.input = [2, N] for at "
                "most N of them a row",
                shape_text(shape).c_str());
  spec.output_shape = {spec.units};
  return {};
}

void append_tensors(const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  const TensorClass start = spec.gives_answers ? TensorClass::kBias : TensorClass::kWeight;
  tensors.push_back({spec.name + ".weight", start, {spec.entries, spec.units}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {spec.units}});
}

// Calls use(place of the feature's weights, its value) for what is not 0 in a row.
template <class Use>
void for_entries(const LayerSpec& spec, std::span<const float> row, Use use) {
  const size_t room = row.size() / 2;
  const auto last = static_cast<float>(spec.entries - 1);
  for (size_t i = 0; i < room; ++i) {
    const float place = row[i], value = row[room + i];
    if (value == 0.0f) continue;
    const uint32_t entry = place >= last   ? spec.entries - 1
                           : place >= 0.0f ? static_cast<uint32_t>(place)
                                           : 0;
    use(size_t{entry} * spec.units, value);
  }
}

std::span<const float> row_of(const LayerSpec& spec, std::span<const float> input, size_t row) {
  const size_t width = size_t{2} * spec.input_shape[2];
  return input.subspan(row * width, width);
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  for (size_t row = 0; row < pass.batch; ++row) {
    float* y = pass.output.data() + row * spec.units;
    std::copy(pass.bias.begin(), pass.bias.end(), y);
    for_entries(spec, row_of(spec, pass.input, row), [&](size_t place, float value) {
      add_scaled(value, pass.weight.data() + place, y, spec.units);
    });
  }
}

// Rows of the batch are added in order. The weights' gradient comes as +0 where list_touched()
// says.
void backward(const LayerSpec& spec, const BackwardPass& pass) {
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  for (size_t row = 0; row < pass.batch; ++row) {
    const float* dy = pass.output_gradient.data() + row * spec.units;
    add_scaled(1.0f, dy, pass.bias_gradient.data(), spec.units);
    for_entries(spec, row_of(spec, pass.input, row), [&](size_t place, float value) {
      add_scaled(value, dy, pass.weight_gradient.data() + place, spec.units);
    });
  }
}

void list_touched(const LayerSpec& spec, std::span<const float> input,
                  std::vector<ElementRange>* touched) {
  const size_t width = size_t{2} * spec.input_shape[2];
  for (size_t row = 0; row < input.size() / width; ++row)
    for_entries(spec, row_of(spec, input, row), [&](size_t place, float) {
      touched->push_back({place, place + spec.units});
    });
}

}  // namespace

const LayerType& sparse_dense_layer() {
  static constexpr LayerType type = {.name = "sparse_dense",
                                     .keys = kKeys,
                                     .backward_reads_input = true,
                                     .infer = infer,
                                     .append_tensors = append_tensors,
                                     .forward = forward,
                                     .backward = backward,
                                     .list_touched = list_touched};
  return type;
}

}  // namespace paceline
