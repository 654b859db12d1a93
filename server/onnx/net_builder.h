// A net that grows layer by layer from weights that exist already, and becomes a run's text.
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
  // Takes the last layer back.
  void drop_last();

  // [model] and [[layer]] for `outputs` classes or numbers.
  std::string toml(bool classes) const;
  // The flat vector of the layout that parse_model() makes of toml().
  std::vector<float> parameters(const ModelSpec& spec) const;

 private:
  // Whether the last layer took it.
  bool fold_scaling(std::span<const float> scale, std::span<const float> shift);

  std::vector<uint32_t> input_shape_;
  std::vector<uint32_t> shape_;
  std::vector<Layer> layers_;
};

// A layer of this type with its fractions as they are by default.
LayerSpec layer_of(std::string_view type);

}  // namespace paceline
