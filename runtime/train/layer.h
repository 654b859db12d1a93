// What a layer type brings: its keys in the description, its shapes, and its arithmetic twice.
//
// `forward` and `backward` are the specification: plain loops in a fixed order, with equal bytes on
// every machine. The gemm_ forms compute the same to rounding on a set of matrix kernels; a type
// without them (null) is run by its reference on every backend. Rows lie batch-major:
// [batch][features], and an image's features are [channel][height][width].
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"

namespace paceline {

struct GemmKernels;

struct ForwardPass {
  size_t batch = 0;
  std::span<const float>
      weight;  // as in the parameter layout, without pads; empty if there is none
  std::span<const float> bias;
  std::span<const float> input;  // [batch][input features]
  std::span<float> output;       // [batch][output features]; the input's memory if `in_place`
  std::span<float> scratch;      // scratch_floats() or work_floats() of them, 64-byte aligned
  // Of a layer with statistics, [2][channels]: means and variances as published; and where the
  // batch's own go, which is normalised by them. That one is empty where nothing is learnt.
  std::span<const float> statistics;
  std::span<float> batch_statistics;
  // Of a join: the features of a row in its inputs before this one.
  size_t features_before = 0;
  // The layer's key for this batch's random numbers; none where nothing is learnt.
  std::optional<uint64_t> noise;
};

struct BackwardPass {
  size_t batch = 0;
  std::span<const float> weight;
  std::span<const float> bias;
  std::span<const float> input;   // of the forward pass; valid only if `backward_reads_input`
  std::span<const float> output;  // of the forward pass; valid only if `backward_reads_output`
  std::span<const float> output_gradient;
  std::span<float> input_gradient;   // overwritten; empty where nobody wants it (the first layer)
  std::span<float> weight_gradient;  // overwritten
  std::span<float> bias_gradient;    // overwritten
  std::span<float> scratch;
  uint64_t noise = 0;                       // of the forward pass
  std::span<const float> batch_statistics;  // of the forward pass
  size_t features_before = 0;
};

// A whole number that the user gives in a [[layer]] table; one of at most 1 is true or false.
struct LayerKey {
  std::string_view name;
  uint32_t LayerSpec::*value;
  bool required = true;
  uint32_t smallest = 1;
  uint32_t largest = 1u << 24;
};

// A fraction that the user may give there.
struct LayerFraction {
  std::string_view name;
  float LayerSpec::*value;
  float preset;
  float smallest;
  float largest;
};

inline constexpr size_t kJoinedMax = 64;  // inputs of one layer

struct LayerType {
  std::string_view name;
  std::span<const LayerKey> keys = {};
  std::span<const LayerFraction> fractions = {};
  // The output may be the input's memory, and the input gradient the output gradient's.
  bool in_place = false;
  bool backward_reads_input = false;
  bool backward_reads_output = false;
  // Takes two to kJoinedMax inputs (LayerSpec::joined): `forward` and `backward` are called for
  // each, in order. Has no parameters.
  bool joins = false;

  // Fills in defaults and output_shape from input_shape. Errors: kInvalidArgument with the reason
  // and what to change, without the layer's name.
  Status (*infer)(LayerSpec& spec) = nullptr;
  // Null for a type without parameters. Otherwise appends two: <name>.weight (or .scale) and
  // <name>.bias; and where the type has statistics <name>.statistics. Those of class kWeight start
  // at random, statistics at mean 0 and variance 1, others at zero.
  void (*append_tensors)(const LayerSpec& spec, std::vector<TensorSpec>& tensors) = nullptr;
  bool has_statistics = false;
  size_t tensor_count() const { return append_tensors ? (has_statistics ? 3 : 2) : 0; }
  // Scratch memory of `forward` and `backward`, whatever the batch; null: none.
  uint64_t (*work_floats)(const LayerSpec& spec) = nullptr;
  // Null, and backward too, for a type that only names its features anew: the trainer skips it.
  void (*forward)(const LayerSpec& spec, const ForwardPass& pass) = nullptr;
  void (*backward)(const LayerSpec& spec, const BackwardPass& pass) = nullptr;

  // Only of a type whose inputs are places and values, which has to come first: appends where in
  // its weights the batch's features lie, in any order, with repeats, at most one range for each
  // value. Before `backward` those elements of the gradient are +0, and the others are none of its
  // business.
  void (*list_touched)(const LayerSpec& spec, std::span<const float> input,
                       std::vector<ElementRange>* touched) = nullptr;

  uint64_t (*scratch_floats)(const LayerSpec& spec, const GemmKernels& kernels,
                             size_t batch) = nullptr;
  void (*gemm_forward)(const LayerSpec& spec, const GemmKernels& kernels,
                       const ForwardPass& pass) = nullptr;
  void (*gemm_backward)(const LayerSpec& spec, const GemmKernels& kernels,
                        const BackwardPass& pass) = nullptr;
};

#define LAYER(name) const LayerType& name##_layer();
#include "runtime/train/layers.inc"
#undef LAYER

std::span<const LayerType* const> layer_types();
// Null for an unknown name.
const LayerType* find_layer_type(std::string_view name);

// Product of the dimensions.
uint64_t feature_count(std::span<const uint32_t> shape);
// "[3, 32, 32]"
std::string shape_text(std::span<const uint32_t> shape);

// `infer` of a layer whose outputs lie as its inputs.
Status keep_shape(LayerSpec& spec);

// A row of one dimension with channels: [length], [channels, 1, length] or [1, channels, length],
// which is what `input = [channels, length]` gives. All three lie in memory alike.
struct Signal {
  uint32_t channels = 1;
  uint32_t length = 0;
};
Result<Signal> signal_of(std::span<const uint32_t> shape);

}  // namespace paceline
