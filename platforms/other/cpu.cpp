// A CPU family without kernel sets of its own: the scalar set serves.
#include "runtime/quant/kernels.h"

namespace paceline {

uint32_t cpu_features() { return 0; }

}  // namespace paceline
