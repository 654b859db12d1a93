// The model whose payloads fuzz_payload reads: 17 wide blocks, so that a sparse codec has a whole
// group and a short one, a tail and a narrow tensor. Its corpus is written for it.
#pragma once

#include "runtime/base/parameter_layout.h"

namespace paceline {

inline ParameterLayout payload_layout() {
  return ParameterLayout::make(
             {{.name = "weight", .shape = {4400}}, {.name = "bias", .shape = {10}}})
      .value();
}

}  // namespace paceline
