// Nets and batches that the training tests share.
#pragma once

#include <string_view>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "runtime/train/model.h"
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

inline ModelSpec model_of(std::string_view toml) {
  auto spec = parse_model(toml);
  PACELINE_CHECK(spec.has_value());
  return std::move(*spec);
}

struct Batch {
  std::vector<float> features;
  std::vector<int32_t> labels;
};

inline Batch random_batch(const ModelSpec& spec, size_t rows, Random& random) {
  Batch batch;
  batch.features.resize(rows * spec.input_features());
  for (float& value : batch.features) value = random.symmetric();
  for (size_t row = 0; row < rows; ++row)
    batch.labels.push_back(static_cast<int32_t>(random.below(spec.class_count)));
  return batch;
}

}  // namespace paceline::test
