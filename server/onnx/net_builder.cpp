#include "server/onnx/net_builder.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/train/layer.h"

namespace paceline {
namespace {

uint64_t weight_count(const LayerSpec& spec, size_t tensor) {
  std::vector<TensorSpec> tensors;
  find_layer_type(spec.type)->append_tensors(spec, tensors);
  return feature_count(tensors[tensor].shape);
}

Status check_keys(const LayerSpec& spec, const LayerType& type) {
  for (const LayerKey& key : type.keys)
    if (const uint32_t value = spec.*key.value;
        value > key.largest || (value < key.smallest && (key.required || value != 0)))
      return fail(Code::kUnsupported, "%s = %u, a layer of type %s takes %u to %u",
                  std::string(key.name).c_str(), value, spec.type.c_str(), key.smallest,
                  key.largest);
  for (const LayerFraction& key : type.fractions)
    if (const float value = spec.*key.value; !(value >= key.smallest && value <= key.largest))
      return fail(Code::kUnsupported, "%s = %g, a layer of type %s takes %g to %g",
                  std::string(key.name).c_str(), static_cast<double>(value), spec.type.c_str(),
                  static_cast<double>(key.smallest), static_cast<double>(key.largest));
  return {};
}

float of_channel(std::span<const float> values, size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

}  // namespace

LayerSpec layer_of(std::string_view type) {
  const LayerType* found = find_layer_type(type);
  PACELINE_CHECK(found != nullptr);
  LayerSpec spec;
  spec.type = type;
  for (const LayerFraction& key : found->fractions) spec.*key.value = key.preset;
  return spec;
}

void NetBuilder::start(std::vector<uint32_t> input_shape) {
  layers_.clear();
  at_ = 0;
  input_shared_ = false;
  input_shape_ = shape_ = std::move(input_shape);
}

Status NetBuilder::add(LayerSpec spec, std::vector<float> weight, std::vector<float> bias) {
  const LayerType& type = *find_layer_type(spec.type);
  PACELINE_TRY(check_keys(spec, type));
  if (spec.inputs.empty()) spec.inputs = {at_};
  if (spec.inputs.size() > kJoinedMax)
    return fail(Code::kUnsupported, "%zu inputs, at most %zu are taken", spec.inputs.size(),
                kJoinedMax);
  spec.input_shape = shape_of(spec.inputs[0]);
  for (size_t i = 0; type.joins && i < spec.inputs.size(); ++i)
    spec.joined.push_back({name_of(spec.inputs[i]), shape_of(spec.inputs[i])});
  if (const Status inferred = type.infer(spec); !inferred.ok())
    return fail(Code::kUnsupported, "a layer of type %s %s", spec.type.c_str(),
                inferred.message().c_str());
  if (type.append_tensors &&
      (weight.size() != weight_count(spec, 0) || bias.size() != weight_count(spec, 1)))
    return fail(Code::kCorrupt, "%zu weights and %zu biases, its shapes need %llu and %llu",
                weight.size(), bias.size(), static_cast<unsigned long long>(weight_count(spec, 0)),
                static_cast<unsigned long long>(weight_count(spec, 1)));
  const auto before =
      std::ranges::count(layers_, spec.type, [](const Layer& layer) { return layer.spec.type; });
  spec.name = spec.type + std::to_string(before + 1);
  layers_.push_back({std::move(spec), std::move(weight), std::move(bias)});
  go_to(static_cast<uint32_t>(layers_.size()));
  return {};
}

Status NetBuilder::join(std::string_view type, std::vector<uint32_t> values) {
  LayerSpec spec = layer_of(type);
  spec.inputs = std::move(values);
  return add(std::move(spec));
}

void NetBuilder::go_to(uint32_t value) {
  at_ = value;
  shape_ = shape_of(value);
}

void NetBuilder::drop_last() {
  PACELINE_CHECK(at_end());
  const uint32_t before = layers_.back().spec.inputs[0];
  layers_.pop_back();
  go_to(before);
}

bool NetBuilder::fold_scaling(std::span<const float> scale, std::span<const float> shift) {
  uint32_t value = at_;
  // One that only names [channels, 1, 1] flat is in nobody's way.
  while (value > 0 && !layers_[value - 1].shared && layers_[value - 1].spec.type == "flatten" &&
         layers_[value - 1].spec.input_shape[0] == layers_[value - 1].spec.output_shape[0])
    value = layers_[value - 1].spec.inputs[0];
  if (value == 0 || layers_[value - 1].shared) return false;
  Layer& last = layers_[value - 1];
  const bool norm = last.spec.type.ends_with("_norm");
  if (!norm && last.spec.type != "dense" && !last.spec.type.starts_with("conv")) return false;
  const size_t channels = last.bias.size();
  if (scale.size() > 1 && scale.size() != channels) return false;
  if (shift.size() > 1 && shift.size() != channels) return false;
  const size_t each = last.weight.size() / channels;
  const float distance = norm ? 1.0f : 0.0f;  // what a scale is stored without
  for (size_t channel = 0; channel < channels; ++channel) {
    const float factor = of_channel(scale, channel);
    for (float& w : std::span(last.weight).subspan(channel * each, each))
      if (factor != 1.0f) w = factor * (w + distance) - distance;
    last.bias[channel] = factor * last.bias[channel] + of_channel(shift, channel);
  }
  return true;
}

Status NetBuilder::add_scaling(std::span<const float> scale, std::span<const float> shift) {
  if (fold_scaling(scale, shift)) return {};
  const bool flat = shape_.size() == 1;
  const uint32_t channels = shape_[0];
  if ((scale.size() != 1 && scale.size() != channels) ||
      (shift.size() != 1 && shift.size() != channels))
    return fail(Code::kUnsupported, "factors for %zu channels, there are %u",
                std::max(scale.size(), shift.size()), channels);
  if (flat) {
    LayerSpec reshape = layer_of("reshape");
    reshape.channels = channels;
    PACELINE_TRY(add(std::move(reshape)));
  }
  LayerSpec scaling = layer_of("conv2d");
  scaling.filters = scaling.groups = channels;
  scaling.kernel = 1;
  std::vector<float> weight, bias;
  for (size_t channel = 0; channel < channels; ++channel) {
    weight.push_back(of_channel(scale, channel));
    bias.push_back(of_channel(shift, channel));
  }
  PACELINE_TRY(add(std::move(scaling), std::move(weight), std::move(bias)));
  return flat ? add(layer_of("flatten")) : Status();
}

// Nothing where it takes what the layer before it gives.
std::string NetBuilder::inputs_toml(size_t layer) const {
  const LayerSpec& spec = layers_[layer].spec;
  if (spec.joined.empty())
    return spec.inputs[0] == layer ? std::string()
                                   : "input = \"" + name_of(spec.inputs[0]) + "\"\n";
  std::string text = "inputs = [";
  for (const uint32_t value : spec.inputs)
    text += (text.back() == '[' ? "\"" : ", \"") + name_of(value) + "\"";
  return text + "]\n";
}

std::string NetBuilder::toml(bool classes) const {
  std::string text = "[model]\ninput = [";
  for (size_t i = 0; i < input_shape_.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(input_shape_[i]);
  text += format_text("]\n%s = %u\n", classes ? "classes" : "outputs", shape_[0]);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const LayerType& type = *find_layer_type(layer.spec.type);
    text += "\n[[layer]]\ntype = \"" + layer.spec.type + "\"\n" + inputs_toml(i);
    for (const LayerKey& key : type.keys)
      if (const uint32_t value = layer.spec.*key.value; value != 0)
        text += std::string(key.name) + " = " +
                (key.largest == 1 ? std::string("true") : std::to_string(value)) + "\n";
    for (const LayerFraction& key : type.fractions)
      text += format_text("%s = %.9g\n", std::string(key.name).c_str(),
                          static_cast<double>(layer.spec.*key.value));
    if (layer.spec.frozen != Frozen::kNone) text += "frozen = true\n";
  }
  return text;
}

std::vector<float> NetBuilder::parameters(const ModelSpec& spec) const {
  std::vector<float> flat(static_cast<size_t>(spec.layout.element_count()));
  size_t tensor = 0;
  for (const Layer& layer : layers_) {
    if (!find_layer_type(layer.spec.type)->append_tensors) continue;
    for (const std::vector<float>* values : {&layer.weight, &layer.bias}) {
      const TensorSpec& place = spec.layout.tensors()[tensor++];
      PACELINE_CHECK(place.count == values->size());
      std::ranges::copy(*values, flat.begin() + static_cast<std::ptrdiff_t>(place.offset));
    }
  }
  return flat;
}

}  // namespace paceline
