#include "runtime/train/layer.h"

#include <string>

namespace paceline {

std::span<const LayerType* const> layer_types() {
  static const LayerType* const types[] = {
#define LAYER(name) &name##_layer(),
#include "runtime/train/layers.inc"
#undef LAYER
  };
  return types;
}

const LayerType* find_layer_type(std::string_view name) {
  for (const LayerType* type : layer_types())
    if (type->name == name) return type;
  return nullptr;
}

uint64_t feature_count(std::span<const uint32_t> shape) {
  uint64_t count = 1;
  for (uint32_t dimension : shape) count *= dimension;
  return count;
}

std::string shape_text(std::span<const uint32_t> shape) {
  std::string text = "[";
  for (uint32_t dimension : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dimension);
  }
  return text + "]";
}

}  // namespace paceline
