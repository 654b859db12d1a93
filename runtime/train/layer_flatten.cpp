// Names an image's features as one row. They lie in that order already, so there is nothing to
// compute.
#include "runtime/train/layer.h"

namespace paceline {
namespace {

Status infer(LayerSpec& spec) {
  spec.output_shape = {static_cast<uint32_t>(feature_count(spec.input_shape))};
  return {};
}

}  // namespace

const LayerType& flatten_layer() {
  static constexpr LayerType type = {.name = "flatten", .infer = infer};
  return type;
}

}  // namespace paceline
