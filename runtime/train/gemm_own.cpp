// A micro-kernel that any CPU runs: 4 rows by 8 columns in vectors of 4, which the compiler turns
// into SSE2 on x86-64, NEON on arm64 and plain code where the baseline has no vectors.
#include <cstring>

#include "runtime/train/gemm.h"

namespace paceline {
namespace {

using Quad [[gnu::vector_size(16)]] = float;

// Invariant: after k steps sums[i] holds bias + the first k terms of row i, each term rounded
// twice.
template <size_t rows>
void multiply(size_t columns, size_t depth, const float* a, size_t a_stride, const float* panel,
              float* c, size_t c_stride) {
  Quad low[rows], high[rows];
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(&low[i], panel, sizeof(Quad));
    std::memcpy(&high[i], panel + 4, sizeof(Quad));
  }
  for (size_t k = 0; k < depth; ++k) {
    panel += 8;
    Quad b_low, b_high;
    std::memcpy(&b_low, panel, sizeof(Quad));
    std::memcpy(&b_high, panel + 4, sizeof(Quad));
    for (size_t i = 0; i < rows; ++i) {
      const float factor = a[i * a_stride + k];
      low[i] += factor * b_low;
      high[i] += factor * b_high;
    }
  }
  for (size_t i = 0; i < rows; ++i) {
    float values[8];
    std::memcpy(values, &low[i], sizeof(Quad));
    std::memcpy(values + 4, &high[i], sizeof(Quad));
    if (columns == 8)
      std::memcpy(c + i * c_stride, values, sizeof(values));
    else
      std::memcpy(c + i * c_stride, values, columns * sizeof(float));
  }
}

void block_4x8(size_t rows, size_t columns, size_t depth_bytes, const float* a,
               size_t a_stride_bytes, const float* panel, float* c, size_t c_stride_bytes, size_t,
               const void*) {
  const size_t depth = depth_bytes / sizeof(float);
  const size_t a_stride = a_stride_bytes / sizeof(float);
  const size_t c_stride = c_stride_bytes / sizeof(float);
  switch (rows) {
    case 1:
      return multiply<1>(columns, depth, a, a_stride, panel, c, c_stride);
    case 2:
      return multiply<2>(columns, depth, a, a_stride, panel, c, c_stride);
    case 3:
      return multiply<3>(columns, depth, a, a_stride, panel, c, c_stride);
    default:
      return multiply<4>(columns, depth, a, a_stride, panel, c, c_stride);
  }
}

bool any_cpu() { return true; }

constexpr GemmShape kShapes[] = {{4, 8, block_4x8, block_4x8}};
constexpr GemmKernels kSets[] = {{"own", any_cpu, kShapes}};

}  // namespace

std::span<const GemmKernels> own_gemm_kernels() { return kSets; }

}  // namespace paceline
