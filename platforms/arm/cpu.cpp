#include "runtime/quant/kernels.h"

#if !defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace paceline {

// Every 64-bit Arm CPU has NEON. A 32-bit one may lack it, whatever its kernel's own word size; bit
// 12 of AT_HWCAP is HWCAP_NEON of the 32-bit ABI.
uint32_t cpu_features() {
#if defined(__aarch64__)
  return kCpuNeon;
#else
  constexpr unsigned long kHwcapNeon = 1ul << 12;
  return (getauxval(AT_HWCAP) & kHwcapNeon) != 0 ? uint32_t{kCpuNeon} : 0u;
#endif
}

}  // namespace paceline
