// Nets and batches that the training tests share.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/trainer.h"

namespace paceline::test {

inline constexpr std::string_view kSmallMlp = R"(
[model]
input = [13]
classes = 3
[[layer]]
type = "dense"
units = 17
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 3
)";

inline constexpr std::string_view kSmallCnn = R"(
[model]
input = [2, 11, 9]
classes = 4
[[layer]]
type = "conv2d"
filters = 3
kernel = 3
padding = 1
[[layer]]
type = "relu"
[[layer]]
type = "maxpool2d"
kernel = 2
[[layer]]
type = "conv2d"
filters = 5
kernel = 2
stride = 2
[[layer]]
type = "relu"
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
units = 4
)";

inline constexpr std::string_view kSmallCells = R"(
[model]
input = [7]
classes = 3
[[layer]]
type = "embedding"
entries = 11
units = 4
[[layer]]
type = "lstm"
units = 5
sequence = true
[[layer]]
type = "gru"
units = 6
[[layer]]
type = "dense"
units = 3
)";

// A residual block, and a signal that is looked at through windows of three lengths.
inline constexpr std::string_view kSmallGraph = R"(
[model]
input = [2, 12]
classes = 3
[[layer]]
type = "conv1d"
name = "stem"
filters = 4
kernel = 3
padding = 1
[[layer]]
type = "conv1d"
name = "narrow"
filters = 3
kernel = 1
[[layer]]
type = "conv1d"
name = "wide"
input = "stem"
filters = 2
kernel = 3
padding = 1
[[layer]]
type = "relu"
[[layer]]
type = "concat"
inputs = ["narrow", "relu1", "stem"]
[[layer]]
type = "flatten"
[[layer]]
type = "dense"
name = "squeezed"
units = 6
[[layer]]
type = "relu"
[[layer]]
type = "dense"
units = 6
[[layer]]
type = "add"
inputs = ["dense2", "squeezed"]
[[layer]]
type = "dense"
units = 3
)";

// Any graph of signals: a value is read by up to all layers behind it. No kinks, so that a
// difference of two losses is a derivative.
inline std::string random_graph(Random& random) {
  const auto below = [&random](uint64_t bound) { return static_cast<size_t>(random.below(bound)); };
  std::string text = "[model]\ninput = [2, 7]\nclasses = 3\n";
  std::vector<std::string> values;  // of one shape
  std::vector<bool> taken;
  const auto add = [&](const std::string& layer) {
    const std::string name = "v" + std::to_string(values.size());
    text += "[[layer]]\nname = '" + name + "'\ntype = " + layer;
    values.push_back(name);
    taken.push_back(false);
  };
  const auto take = [&](size_t value) {
    taken[value] = true;
    return "'" + values[value] + "'";
  };
  const auto some = [&] {  // two or three of them
    std::vector<size_t> order;
    for (size_t i = 0; i < values.size(); ++i) {
      order.push_back(i);
      std::swap(order[i], order[below(i + 1)]);
    }
    std::string list;
    for (size_t i = 0; i < std::min<size_t>(order.size(), 2 + below(2)); ++i)
      list += (i == 0 ? "[" : ", ") + take(order[i]);
    return "inputs = " + list + "]\n";
  };
  const std::string conv = "'conv1d'\nfilters = 3\nkernel = 3\npadding = 1\n";
  add(conv);
  for (size_t layers = 2 + below(9); layers > 0; --layers) {
    static constexpr const char* kUnary[] = {"'tanh'\n",
                                             "'gelu'\n",
                                             "'sigmoid'\n",
                                             "'dropout'\nrate = 0.0\n",
                                             "'group_norm'\ngroups = 1\n",
                                             "'batch_norm'\n"};
    const size_t kind = values.size() < 2 ? below(7) : below(10);
    if (kind < 7) {
      add((kind < 6 ? kUnary[kind] : conv) + ("input = " + take(below(values.size()))) + "\n");
    } else if (kind < 9) {
      add("'add'\n" + some());
    } else {
      text += "[[layer]]\nname = 'c" + std::to_string(layers) + "'\ntype = 'concat'\n" + some();
      add(conv);
    }
  }
  std::string loose;
  for (size_t i = 0; i < values.size(); ++i)
    if (!taken[i]) loose += (loose.empty() ? "[" : ", ") + ("'" + values[i] + "'");
  if (loose.find(',') != std::string::npos)
    text += "[[layer]]\ntype = 'concat'\ninputs = " + loose + "]\n";
  return text + "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 3\n";
}

inline ModelSpec model_of(std::string_view toml) {
  auto spec = parse_model(toml);
  PACELINE_CHECK(spec.has_value());
  return std::move(*spec);
}

inline size_t parameter_floats(const ModelSpec& spec) {
  return static_cast<size_t>(spec.layout.element_count());
}

inline size_t row_floats(const ModelSpec& spec) {
  return static_cast<size_t>(spec.input_features());
}

template <class Float>
std::span<Float> tensor_of(std::span<Float> flat, const TensorSpec& tensor) {
  return flat.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count));
}

// The elements between the tensor and the next one.
inline std::span<const float> pads_after(std::span<const float> flat, const TensorSpec& tensor) {
  const auto end = static_cast<size_t>(tensor.offset + tensor.count);
  return flat.subspan(end, (kBlockElements - end % kBlockElements) % kBlockElements);
}

// +0, to the bit.
inline bool all_zero(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::bit_cast<uint32_t>(value) == 0; });
}

// Parameters as training starts with them, but for biases: away from zero, so that one which is
// left out shows.
inline std::vector<float> random_parameters(const ModelSpec& spec, Random& random) {
  std::vector<float> parameters(parameter_floats(spec));
  init_parameters(spec, random.next(), parameters);
  for (const TensorSpec& tensor : spec.layout.tensors())
    if (tensor.tensor_class == TensorClass::kBias)
      for (float& value : tensor_of(std::span(parameters), tensor))
        value = 0.3f * random.symmetric();
    else if (tensor.tensor_class == TensorClass::kStatistic)
      for (float& value : tensor_of(std::span(parameters), tensor))
        value += 0.3f * random.symmetric();
  return parameters;
}

struct Batch {
  std::vector<float> features;
  std::vector<int32_t> labels;
  std::vector<float> numbers;
  Targets targets() const {
    if (labels.empty()) return numbers;
    return labels;
  }
};

inline Batch random_batch(const ModelSpec& spec, size_t rows, Random& random) {
  Batch batch;
  batch.features.resize(rows * row_floats(spec));
  for (float& value : batch.features) value = random.symmetric();
  for (size_t i = 0; spec.class_count == 0 && i < rows * spec.output_count; ++i)
    batch.numbers.push_back(3.0f * random.symmetric());
  for (size_t row = 0; spec.class_count > 0 && row < rows; ++row)
    batch.labels.push_back(static_cast<int32_t>(random.below(spec.class_count)));
  return batch;
}

}  // namespace paceline::test
