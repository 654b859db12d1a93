// XNNPACK's micro-kernels for this processor family. Debian's archive comes without headers for
// them, and they are an internal interface: gemm_verify.cpp holds each against plain loops before
// it is used.
#include "runtime/train/gemm.h"

#define KERNEL(name) xnn_f32_gemm_minmax_ukernel_##name

extern "C" {
paceline::GemmMicroKernel KERNEL(7x32__avx512f_broadcast);
paceline::GemmMicroKernel KERNEL(1x32__avx512f_broadcast);
paceline::GemmMicroKernel KERNEL(5x16__fma3_broadcast);
paceline::GemmMicroKernel KERNEL(1x16__fma3_broadcast);
paceline::GemmMicroKernel KERNEL(4x8__sse_load1);
paceline::GemmMicroKernel KERNEL(1x8__sse_load1);
}

namespace paceline {
namespace {

// XNNPACK builds these for AVX-512F; the check is all that stands before them.
bool has_avx512() { return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma"); }
bool has_fma3() { return __builtin_cpu_supports("avx") && __builtin_cpu_supports("fma"); }
bool has_sse() { return true; }

constexpr GemmShape kAvx512Shapes[] = {
    {7, 32, KERNEL(7x32__avx512f_broadcast), KERNEL(1x32__avx512f_broadcast)},
    {5, 16, KERNEL(5x16__fma3_broadcast), KERNEL(1x16__fma3_broadcast)}};
constexpr GemmShape kFma3Shapes[] = {
    {5, 16, KERNEL(5x16__fma3_broadcast), KERNEL(1x16__fma3_broadcast)}};
constexpr GemmShape kSseShapes[] = {{4, 8, KERNEL(4x8__sse_load1), KERNEL(1x8__sse_load1)}};
constexpr GemmKernels kSets[] = {{"xnnpack-avx512", has_avx512, kAvx512Shapes},
                                 {"xnnpack-fma3", has_fma3, kFma3Shapes},
                                 {"xnnpack-sse", has_sse, kSseShapes}};

}  // namespace

std::span<const GemmKernels> xnnpack_gemm_kernels() { return kSets; }

}  // namespace paceline
