#include "runtime/quant/kernels.h"

namespace paceline {

// The builtin asks CPUID and, for what needs wider registers, whether the system saves them (XCR0).
uint32_t cpu_features() {
  __builtin_cpu_init();
  uint32_t features = 0;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) features |= kCpuAvx2;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    features |= kCpuAvx512;
  return features;
}

}  // namespace paceline
