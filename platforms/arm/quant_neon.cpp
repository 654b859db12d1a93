// The NEON kernels for 64-bit Arm, where every CPU has them.
#include "platforms/arm/neon_kernels.h"
#include "platforms/arm/neon_q4.h"
#include "platforms/arm/neon_sparse.h"

namespace paceline {

extern const KernelSet kernel_set_neon;
constinit const KernelSet kernel_set_neon = {
    .name = "neon",
    .cpu_features = kCpuNeon,
    .sums_in_range = sums_in_range,
    .encode_q8 = encode_q8,
    .encode_s1 = encode_s1,
    .encode_s1r = encode_s1r,
    .add_q8 = add_q8,
    .add_s1 = add_s1,
    .add_s1r = add_s1r,
    .sum_q8 = sum_q8,
    .sum_s1 = sum_s1,
    .unrotate_add = unrotate_add,
    .encode_q4 = encode_q4,
    .encode_q4r = encode_q4r,
    .add_q4 = add_q4,
    .add_q4r = add_q4r,
    .sum_q4 = sum_q4,
    .gather_maxima = gather_maxima,
    .find_large = find_large,
};

}  // namespace paceline
