// XNNPACK's micro-kernels for this processor family. Debian's archive comes without headers for
// them, and they are an internal interface: gemm_verify.cpp holds each against plain loops before
// it is used.
#include "runtime/train/gemm.h"

#define KERNEL(name) xnn_f32_gemm_minmax_ukernel_##name

extern "C" {
paceline::GemmMicroKernel KERNEL(6x8__aarch64_neonfma_lane_ld128);
paceline::GemmMicroKernel KERNEL(1x8__aarch64_neonfma_lane_ld128);
}

namespace paceline {
namespace {

// Every ARMv8-A core has NEON.
bool has_neon() { return true; }

constexpr GemmShape kNeonShapes[] = {
    {6, 8, KERNEL(6x8__aarch64_neonfma_lane_ld128), KERNEL(1x8__aarch64_neonfma_lane_ld128)}};
constexpr GemmKernels kSets[] = {{"xnnpack-neon", has_neon, kNeonShapes}};

}  // namespace

std::span<const GemmKernels> xnnpack_gemm_kernels() { return kSets; }

}  // namespace paceline
