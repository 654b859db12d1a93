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

Status keep_shape(LayerSpec& spec) {
  spec.output_shape = spec.input_shape;
  return {};
}

Result<Signal> signal_of(std::span<const uint32_t> shape) {
  if (shape.size() == 1) return Signal{1, shape[0]};
  if (shape.size() == 3 && shape[1] == 1) return Signal{shape[0], shape[2]};
  if (shape.size() == 3 && shape[0] == 1) return Signal{shape[1], shape[2]};
  return fail(Code::kInvalidArgument,
              "needs a signal [length] or [channels, 1, length], gets the image %s; use the layer "
              "for two dimensions",
              shape_text(shape).c_str());
}

}  // namespace paceline
