// XNNPACK's micro-kernels for this processor family. Debian's archive comes without headers for
// them, and they are an internal interface: gemm_verify.cpp holds each against plain loops before
// it is used.
#include <sys/auxv.h>

#include "runtime/train/gemm.h"

#define KERNEL(name) xnn_f32_gemm_minmax_ukernel_##name

extern "C" {
paceline::GemmMicroKernel KERNEL(4x8__neon_lane_ld128);
paceline::GemmMicroKernel KERNEL(1x8__neon_lane_ld64);
paceline::GemmMicroKernel KERNEL(4x4__scalar);
paceline::GemmMicroKernel KERNEL(1x4__scalar);
}

namespace paceline {
namespace {

// HWCAP_NEON of the ARM kernel interface (asm/hwcap.h); ARMv7-A may come without.
constexpr unsigned long kHwcapNeon = 1ul << 12;

bool has_neon() { return (getauxval(AT_HWCAP) & kHwcapNeon) != 0; }
bool any_cpu() { return true; }

constexpr GemmShape kNeonShapes[] = {
    {4, 8, KERNEL(4x8__neon_lane_ld128), KERNEL(1x8__neon_lane_ld64)}};
constexpr GemmShape kScalarShapes[] = {{4, 4, KERNEL(4x4__scalar), KERNEL(1x4__scalar)}};
constexpr GemmKernels kSets[] = {{"xnnpack-neon32", has_neon, kNeonShapes},
                                 {"xnnpack-scalar", any_cpu, kScalarShapes}};

}  // namespace

std::span<const GemmKernels> xnnpack_gemm_kernels() { return kSets; }

}  // namespace paceline
