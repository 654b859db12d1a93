// `edge_server simulate`: what a pace makes of a fleet, without network or training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct SimulateOptions {
  std::string oracle;              // seconds of an iteration on each worker: "1,1,2,4", "7x1,3"
  std::vector<std::string> paces;  // none: all there are
  double jitter = 0;
  double slow_share = 0;
  double slow_factor = 5;
  double seconds = 1000;
  uint64_t seed = 1;
  bool json = false;
};

// A table, or one JSON object a line for each pace. The same options give the same bytes.
// Errors: kInvalidArgument.
Result<std::string> simulate_paces(const SimulateOptions& options);

}  // namespace paceline
