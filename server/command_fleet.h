// `edge_server init`, `enrol`, `workers` and `revoke`: a fleet's folder from the outside.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace paceline {

// Each returns what to print. Errors: those of FleetFolder and FleetList.
Result<std::string> init_fleet(const std::string& folder);
Result<std::string> enrol_worker(const std::string& folder, const std::string& name);
Result<std::string> list_workers(const std::string& folder);
Result<std::string> revoke_worker(const std::string& folder, const std::string& name);

}  // namespace paceline
