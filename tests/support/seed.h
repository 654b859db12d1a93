// The seed of a test program's random cases: --seed=N on the command line, else a fixed one.
// Printed, so that a failure can be run again.
#pragma once

#include <cstdint>

namespace paceline::test {

uint64_t seed();

}  // namespace paceline::test
