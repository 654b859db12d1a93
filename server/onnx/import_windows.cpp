// Rules for convolutions, pools and normalisations.
#include <algorithm>
#include <cmath>

#include "runtime/train/layer.h"
#include "server/onnx/import_state.h"

namespace paceline {
namespace {

// The same window along each axis, which is what the layers have.
struct Window {
  bool flat = false;  // of a signal
  uint32_t kernel = 0, stride = 1, dilation = 1, padding = 0;
};

Result<uint32_t> one_value(const std::vector<int64_t>& values, size_t from, const char* what) {
  for (size_t i = from; i < values.size(); ++i)
    if (values[i] != values[from])
      return fail(Code::kUnsupported, "its %s differ by axis: %lld and %lld", what,
                  static_cast<long long>(values[from]), static_cast<long long>(values[i]));
  if (values[from] < 0 || values[from] > UINT16_MAX)
    return fail(Code::kUnsupported, "its %s are %lld", what, static_cast<long long>(values[from]));
  return static_cast<uint32_t>(values[from]);
}

// What "same" means as padding: as much on each side, or it is another thing.
Result<std::vector<int64_t>> padding_of(const OnnxNode& node, const Window& window, size_t axes) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  std::vector<int64_t> pads = node.wholes("pads");
  if (automatic == "VALID" || pads.empty()) pads.assign(2 * axes, 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const uint32_t span = (window.kernel - 1) * window.dilation;
    if (window.stride != 1 || span % 2 != 0)
      return fail(Code::kUnsupported, "auto_pad %s pads its sides unequally here",
                  automatic.c_str());
    pads.assign(2 * axes, span / 2);
  }
  return pads;
}

// A window over images of height 1 is one over signals.
Result<Window> window_of(ImportState& state, const OnnxNode& node, std::vector<int64_t> kernel) {
  PACELINE_TRY(state.natural());
  const size_t axes = state.row.size() - 1;
  if (state.row.size() < 2 || kernel.size() != axes)
    return fail(Code::kUnsupported, "a window of %zu dimensions over rows of %zu", kernel.size(),
                state.row.size());
  const auto or_ones = [&](const char* key) {
    std::vector<int64_t> values = node.wholes(key);
    return values.size() == axes ? values : std::vector<int64_t>(axes, 1);
  };
  const size_t from = axes == 2 && kernel[0] == 1 && state.row[1] == 1 ? 1 : 0;
  Window window;
  window.flat = axes - from == 1;
  PACELINE_ASSIGN(window.kernel, one_value(kernel, from, "window's sides"));
  PACELINE_ASSIGN(window.stride, one_value(or_ones("strides"), from, "strides"));
  PACELINE_ASSIGN(window.dilation, one_value(or_ones("dilations"), from, "dilations"));
  if (window.kernel == 0 || window.stride == 0 || window.dilation == 0)
    return fail(Code::kCorrupt, "its window, stride or dilation is 0");
  PACELINE_ASSIGN(std::vector<int64_t> pads, padding_of(node, window, axes));
  if (pads.size() != 2 * axes) return fail(Code::kCorrupt, "%zu pads", pads.size());
  if (from == 1) {
    if (pads[0] != 0 || pads[2] != 0) return fail(Code::kUnsupported, "it pads a signal's height");
    pads = {pads[1], pads[3]};
  }
  PACELINE_ASSIGN(window.padding, one_value(pads, 0, "pads"));
  return window;
}

// The row that the last layer gives, seen with as many dimensions as before.
void follow(ImportState& state) {
  const std::vector<uint32_t>& shape = state.net.shape();
  if (state.row.size() == 2)
    state.set_row({shape[0], shape[2]});
  else
    state.set_row(shape);
}

Status convolution(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const OnnxTensor* weight, state.reals(node.input(1), "weight"));
  if (weight->dims.size() < 3)
    return fail(Code::kUnsupported, "weights of %zu dimensions", weight->dims.size());
  const std::vector<int64_t> kernel(weight->dims.begin() + 2, weight->dims.end());
  PACELINE_ASSIGN(const Window window, window_of(state, node, kernel));
  const int64_t filters = weight->dims[0], groups = node.whole("group", 1);
  if (filters < 1 || groups < 1 || filters > INT32_MAX || groups > filters ||
      weight->dims[1] * groups != state.row[0])
    return fail(Code::kUnsupported, "%lld filters in %lld groups do not fit %u channels",
                static_cast<long long>(filters), static_cast<long long>(groups), state.row[0]);
  std::vector<float> bias(static_cast<size_t>(filters));
  if (!node.input(2).empty()) {
    PACELINE_ASSIGN(const OnnxTensor* constant, state.reals(node.input(2), "bias"));
    bias = constant->reals;
  }
  LayerSpec layer = layer_of(window.flat ? "conv1d" : "conv2d");
  layer.filters = static_cast<uint32_t>(filters);
  layer.kernel = window.kernel;
  layer.stride = window.stride;
  layer.padding = window.padding;
  layer.dilation = window.dilation;
  layer.groups = static_cast<uint32_t>(groups);
  PACELINE_TRY(state.net.add(std::move(layer), weight->reals, std::move(bias)));
  follow(state);
  return {};
}

Status pool(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const Window window, window_of(state, node, node.wholes("kernel_shape")));
  if (window.padding != 0) return fail(Code::kUnsupported, "pools have no padding here");
  if (window.dilation != 1) return fail(Code::kUnsupported, "pools have no dilation here");
  if (node.whole("ceil_mode", 0) != 0)
    for (size_t i = 1; i < state.row.size(); ++i)
      if (state.row[i] >= window.kernel && (state.row[i] - window.kernel) % window.stride != 0)
        return fail(Code::kUnsupported, "ceil_mode: windows over the edge are left out here");
  if (node.outputs.size() > 1 && !node.outputs[1].empty())
    return fail(Code::kUnsupported, "its second output, the places, is no part of a chain");
  const std::string type = node.op == "MaxPool" ? "maxpool" : "avgpool";
  LayerSpec layer = layer_of(type + (window.flat ? "1d" : "2d"));
  layer.kernel = window.kernel;
  layer.stride = window.stride;
  PACELINE_TRY(state.net.add(std::move(layer)));
  follow(state);
  return {};
}

Status global_average(ImportState& state, const OnnxNode&) {
  PACELINE_TRY(state.natural());
  const size_t rank = state.row.size();
  PACELINE_TRY(state.net.add(layer_of("globalavgpool")));
  state.set_row({state.row[0]});
  state.axes.insert(state.axes.end(), rank - 1, ImportState::kOne);
  return {};
}

// With the statistics that it has, which is a factor and a shift for each channel.
Status batch_norm(ImportState& state, const OnnxNode& node) {
  if (node.whole("training_mode", 0) != 0)
    return fail(Code::kUnsupported, "training_mode: export the model for inference");
  PACELINE_TRY(state.natural());
  std::vector<const OnnxTensor*> parts;
  for (size_t i = 1; i < 5; ++i) {
    PACELINE_ASSIGN(const OnnxTensor* part,
                    state.reals(node.input(i), "scale, bias, mean or variance"));
    if (part->reals.size() != state.row[0])
      return fail(Code::kUnsupported, "%zu values for %u channels", part->reals.size(),
                  state.row[0]);
    parts.push_back(part);
  }
  std::vector<float> scale, shift;
  const double epsilon = static_cast<double>(node.real("epsilon", 1e-5f));
  for (size_t i = 0; i < parts[0]->reals.size(); ++i) {
    const double variance = static_cast<double>(parts[3]->reals[i]) + epsilon;
    if (!(variance > 0)) return fail(Code::kCorrupt, "variance %g of channel %zu", variance, i);
    const double factor = static_cast<double>(parts[0]->reals[i]) / std::sqrt(variance);
    scale.push_back(static_cast<float>(factor));
    shift.push_back(static_cast<float>(static_cast<double>(parts[1]->reals[i]) -
                                       factor * static_cast<double>(parts[2]->reals[i])));
  }
  const size_t before = state.net.layers().size();
  PACELINE_TRY(state.net.add_scaling(scale, shift));
  state.notes.push_back(
      "BatchNormalization '" + node.name + "': its statistics stay as they are, " +
      (state.net.layers().size() == before
           ? "in the weights of " + state.net.layers()[state.net.at() - 1].spec.name
           : std::string("as a depthwise convolution of one tap")));
  return {};
}

// Scale and bias of a normalisation, of so many values each.
Status add_norm(ImportState& state, const OnnxNode& node, LayerSpec layer, size_t count) {
  PACELINE_ASSIGN(const OnnxTensor* scale, state.reals(node.input(1), "scale"));
  std::vector<float> weight = scale->reals, bias(count);
  if (!node.input(2).empty()) {
    PACELINE_ASSIGN(const OnnxTensor* constant, state.reals(node.input(2), "bias"));
    bias = constant->reals;
  }
  for (float& value : weight) value -= 1.0f;
  layer.epsilon = node.real("epsilon", 1e-5f);
  return state.net.add(std::move(layer), std::move(weight), std::move(bias));
}

Status layer_norm(ImportState& state, const OnnxNode& node) {
  PACELINE_TRY(state.exact());
  PACELINE_ASSIGN(const int axis, state.row_axis(node.whole("axis", -1)));
  if (axis != 0)
    return fail(Code::kUnsupported, "it normalises parts of a row; here it is the row as a whole");
  return add_norm(state, node, layer_of("layer_norm"), static_cast<size_t>(state.row_count()));
}

Status group_norm(ImportState& state, const OnnxNode& node) {
  PACELINE_TRY(state.natural());
  LayerSpec layer = layer_of("group_norm");
  const bool instance = node.op == "InstanceNormalization";
  const int64_t groups = instance ? state.row[0] : node.whole("num_groups", 0);
  if (groups < 1 || groups > state.row[0])
    return fail(Code::kUnsupported, "%lld groups of %u channels", static_cast<long long>(groups),
                state.row[0]);
  layer.groups = static_cast<uint32_t>(groups);
  return add_norm(state, node, std::move(layer), state.row[0]);
}

constexpr NamedRule kRules[] = {{"Conv", convolution},
                                {"MaxPool", pool},
                                {"AveragePool", pool},
                                {"GlobalAveragePool", global_average},
                                {"BatchNormalization", batch_norm},
                                {"LayerNormalization", layer_norm},
                                {"InstanceNormalization", group_norm},
                                {"GroupNormalization", group_norm}};

}  // namespace

std::span<const NamedRule> window_rules() { return kRules; }

}  // namespace paceline
