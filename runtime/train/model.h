// What is trained: the description of a net, as the user writes it (TOML) and the server sends it.
//
//   [model]
//   input = [28, 28]            # shape of one row; [height, width] or [channels, height, width]
//   classes = 10                # or outputs = 1: the net gives numbers
//   [[layer]]
//   type = "flatten"
//   [[layer]]
//   type = "dense"
//   units = 128
//   [[layer]]
//   type = "relu"
//   [[layer]]
//   type = "dense"
//   units = 10
//
// A layer takes what the one before it gives, or what its `input` names; add and concat take all
// that their `inputs` name. Only earlier layers and "input", the model's own, can be named, so
// there are no cycles, and what each layer but the last gives is taken by some other.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"

namespace paceline {

enum class Frozen : uint8_t {
  kNone,
  kWeights,  // all but the bias
  kAll,
};

// What a layer that joins several takes.
struct JoinedInput {
  std::string name;
  std::vector<uint32_t> shape;
};

struct LayerSpec {
  std::string type;               // a name of layers.inc: "dense", "conv2d", "relu"
  std::string name;               // "dense1": type and how many of it came before, or as given
  uint32_t units = 0;             // dense, lstm, gru, embedding
  uint32_t filters = 0;           // convolutions
  uint32_t kernel = 0;            // convolutions and pools: the window's side
  uint32_t stride = 0;            // convolutions (default 1), pools (default kernel)
  uint32_t padding = 0;           // convolutions: zeros on each side
  uint32_t dilation = 0;          // convolutions: inputs from one tap to the next (default 1)
  uint32_t groups = 0;            // convolutions (default 1), group_norm
  uint32_t entries = 0;           // embedding: vectors in its table; sparse_dense: features
  uint32_t sequence = 0;          // lstm, gru: 1 gives every step's state, 0 the last
  uint32_t channels = 0;          // reshape
  uint32_t height = 0;            // reshape (default 1)
  uint32_t width = 0;             // reshape (default: what is left)
  float slope = 0;                // leaky_relu
  float rate = 0;                 // dropout
  float epsilon = 0;              // normalisations
  Frozen frozen = Frozen::kNone;  // what stays as it started: its gradient is +0
  bool gives_answers = false;     // derived: the net's outputs are its own
  // What it takes: 0 is the model's input, i what layers[i - 1] gives. One, but for joins.
  std::vector<uint32_t> inputs;
  std::vector<JoinedInput> joined;  // of joins: the same by name and shape
  // Derived shapes of one row: {channels, height, width} or {features}; the first input's.
  std::vector<uint32_t> input_shape;
  std::vector<uint32_t> output_shape;
};

// The name of the model's own input.
inline constexpr std::string_view kModelInputName = "input";

struct ModelSpec {
  std::vector<uint32_t> input_shape;
  uint32_t class_count = 0;   // 0: the outputs are numbers
  uint32_t output_count = 0;  // of the last layer: one for each class, or the numbers
  std::vector<LayerSpec> layers;
  ParameterLayout layout;

  uint64_t input_features() const;
  // Features of the first layer where it takes sparse rows; 0: rows are dense.
  uint32_t sparse_entries() const;
};

// Errors: kInvalidArgument with line, column, what is wrong and, for a misspelled key, the nearest
// valid one. Shapes are checked through the whole net. Other tables than [model] and [[layer]] are
// left to other readers.
Result<ModelSpec> parse_model(std::string_view toml);

// The start of training: He-uniform weights, zero biases; a pure function of (spec, seed), with
// equal bytes on every machine.
void init_parameters(const ModelSpec& spec, uint64_t seed, std::span<float> parameters);

}  // namespace paceline
