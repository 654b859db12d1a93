// Makes an update private before it is encoded: shortens it to the run's clip and adds noise.
//
// On a grid of whole numbers, 2^20 to the noise's sd: values are cut towards zero, so that the
// bound holds exactly and not to rounding, and get numbers of a discrete Gaussian. What is done to
// them from there on - the residual, a codec, the server - tells no more of the rows than they do.
#pragma once

#include <span>

#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"
#include "runtime/privacy/discrete_gaussian.h"
#include "runtime/privacy/privacy.h"

namespace paceline {

// `trained`, in order, is what training moves; other elements of `update` become zero. Errors:
// kInvalidArgument if a value is not finite; nothing is then drawn.
Status make_private(const PrivacySpec& privacy, std::span<const ElementRange> trained,
                    const RandomBytes& bytes, std::span<float> update);

}  // namespace paceline
