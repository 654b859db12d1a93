// A net that grows layer by layer from weights that exist already, and becomes a run's text.
//
// Layers go on from one value, the last one or one gone back to. Values are numbered as in
// LayerSpec::inputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/train/model.h"

namespace paceline {

class NetBuilder {
 public:
  struct Layer {
    LayerSpec spec;
    std::vector<float> weight;  // as the layer's tensors have them
    std::vector<float> bias;
    bool shared = false;  // others take what it gives as it is: it may not change any more
  };

  // Forgets all layers.
  void start(std::vector<uint32_t> input_shape);
  // `spec` has a type and its keys; fractions that are not set are to be set to their presets
  // first (layer_of). Errors: kUnsupported with what the layer can't do.
  Status add(LayerSpec spec, std::vector<float> weight = {}, std::vector<float> bias = {});
  // y = x * scale + shift, each of one value a channel or one for all. Becomes part of the layer
  // before where that ends in such a step, else a depthwise convolution of one tap.
  Status add_scaling(std::span<const float> scale, std::span<const float> shift);

  const std::vector<uint32_t>& shape() const { return shape_; }
  const std::vector<Layer>& layers() const { return layers_; }
  std::vector<Layer>& layers() { return layers_; }
  // add or concat of several values.
  Status join(std::string_view type, std::vector<uint32_t> values);
  // Takes the last layer back, which is where the net goes on from.
  void drop_last();

  // The value that the net goes on from.
  uint32_t at() const { return at_; }
  void go_to(uint32_t value);
  void share() { (at_ == 0 ? input_shared_ : layers_[at_ - 1].shared) = true; }
  bool shared() const { return at_ == 0 ? input_shared_ : layers_[at_ - 1].shared; }
  // Whether the last layer gives it, to nobody else.
  bool at_end() const { return at_ > 0 && at_ == layers_.size() && !shared(); }

  // [model] and [[layer]] for `outputs` classes or numbers.
  std::string toml(bool classes) const;
  // The flat vector of the layout that parse_model() makes of toml().
  std::vector<float> parameters(const ModelSpec& spec) const;

 private:
  const std::vector<uint32_t>& shape_of(uint32_t value) const {
    return value == 0 ? input_shape_ : layers_[value - 1].spec.output_shape;
  }
  std::string name_of(uint32_t value) const {
    return value == 0 ? std::string(kModelInputName) : layers_[value - 1].spec.name;
  }
  std::string inputs_toml(size_t layer) const;
  // Whether the layer before took it.
  bool fold_scaling(std::span<const float> scale, std::span<const float> shift);

  std::vector<uint32_t> input_shape_;
  std::vector<uint32_t> shape_;
  uint32_t at_ = 0;
  bool input_shared_ = false;
  std::vector<Layer> layers_;
};

// A layer of this type with its fractions as they are by default.
LayerSpec layer_of(std::string_view type);

}  // namespace paceline
