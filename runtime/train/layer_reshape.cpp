// Names a row's values as an image or a signal of so many channels. They lie in that order already,
// so there is nothing to compute.
#include "runtime/train/layer.h"

namespace paceline {
namespace {

constexpr LayerKey kKeys[] = {{"channels", &LayerSpec::channels},
                              {.name = "height", .value = &LayerSpec::height, .required = false},
                              {.name = "width", .value = &LayerSpec::width, .required = false}};

Status infer(LayerSpec& spec) {
  if (spec.height == 0) spec.height = 1;
  const uint64_t features = feature_count(spec.input_shape);
  const uint64_t columns = uint64_t{spec.channels} * spec.height;
  if (spec.width == 0 && columns <= features)
    spec.width = static_cast<uint32_t>(features / columns);
  spec.output_shape = {spec.channels, spec.height, spec.width};
  if (spec.width == 0 || columns > features || columns * spec.width != features)
    return fail(Code::kInvalidArgument, "can't name the %llu values of %s as %u x %u x %u",
                static_cast<unsigned long long>(features), shape_text(spec.input_shape).c_str(),
                spec.channels, spec.height, spec.width);
  return {};
}

}  // namespace

const LayerType& reshape_layer() {
  static constexpr LayerType type = {.name = "reshape", .keys = kKeys, .infer = infer};
  return type;
}

}  // namespace paceline
