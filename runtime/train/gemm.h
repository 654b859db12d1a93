// Matrix products on micro-kernels that multiply a few rows by one packed panel of columns.
//
// A panel holds `nr` columns of B in the order in which a kernel reads them: nr biases, then nr
// values for each row of B. Training changes weights at every step, so callers stream the weights
// as A and pack the smaller operand (docs/decisions: XNNPACK's own operators pack the weights).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline {

// XNNPACK's f32 GEMM micro-kernel: c[rows][columns] = biases + a[rows][depth] * panel, clamped to
// params. rows <= mr, columns <= nr; sizes and strides in bytes but for rows and columns.
using GemmMicroKernel = void (*)(size_t rows, size_t columns, size_t depth_bytes, const float* a,
                                 size_t a_stride_bytes, const float* panel, float* c,
                                 size_t c_stride_bytes, size_t c_panel_stride_bytes,
                                 const void* params);

struct GemmShape {
  uint32_t mr = 0;
  uint32_t nr = 0;
  GemmMicroKernel block = nullptr;  // up to mr rows
  GemmMicroKernel row = nullptr;    // one row
};

// A backend. The first shape is the fastest for wide matrices.
struct GemmKernels {
  const char* name = nullptr;
  bool (*cpu_can)() = nullptr;
  std::span<const GemmShape> shapes;
};

// Sets that this CPU has and that passed verification, best first; checked once a process. A set
// that fails is left out with one line in the log.
std::span<const GemmKernels* const> usable_gemm_kernels();

}  // namespace paceline
