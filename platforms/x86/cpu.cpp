#include "runtime/quant/kernels.h"

namespace paceline {

// The builtin asks CPUID and, for what needs wider registers, whether the system saves them.
uint32_t cpu_features() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") ? uint32_t{kCpuAvx2} : 0u;
}

}  // namespace paceline
