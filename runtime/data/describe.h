// A data set in one paragraph, for a person who wants to know whether it was read as meant.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace paceline {

// "10,000 rows of 28 x 28 (784 features, uint8, 0 to 255), 10 classes of 892 to 1,135 rows. ..."
// Reads every value once.
std::string describe(const Dataset& dataset);

// "ax, ay, az"; of many only the first: "... and 12 more".
std::string name_list(const std::vector<std::string>& names);

}  // namespace paceline
