// Matrix products on micro-kernels that multiply a few rows by one packed panel of columns.
//
// A panel holds `nr` columns of B in the order in which a kernel reads them: nr biases, then nr
// values for each row of B. XNNPACK's own operators pack the weights once; training changes them at
// every step, so layers here stream the weights as A and pack the smaller operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/status.h"

namespace paceline {

// XNNPACK's f32 GEMM micro-kernel: c[rows][columns] = biases + a[rows][depth] * panel, clamped to
// params. rows <= mr, columns <= nr, depth > 0; sizes and strides in bytes but for rows and
// columns.
using GemmMicroKernel = void(size_t rows, size_t columns, size_t depth_bytes, const float* a,
                             size_t a_stride_bytes, const float* panel, float* c,
                             size_t c_stride_bytes, size_t c_panel_stride_bytes,
                             const void* params);

struct GemmShape {
  uint32_t mr = 0;
  uint32_t nr = 0;
  GemmMicroKernel* block = nullptr;  // up to mr rows; costs about the same for fewer
  GemmMicroKernel* row = nullptr;    // one row
};

// A backend. Shapes are ordered by speed on wide matrices.
struct GemmKernels {
  const char* name = nullptr;
  bool (*cpu_can)() = nullptr;
  std::span<const GemmShape> shapes;
};

inline constexpr size_t kGemmColumnsMax = 32;  // largest nr
inline constexpr size_t kGemmRowsMax = 8;      // largest mr

// The sets of this build, best first: XNNPACK's for this processor family, where its micro-kernels
// are there, and own ones that run anywhere.
std::span<const GemmKernels> xnnpack_gemm_kernels();
std::span<const GemmKernels> own_gemm_kernels();

// Sets that this CPU has and that passed verification, best first; checked once a process. A set
// that fails is left out with one line in the log.
std::span<const GemmKernels* const> usable_gemm_kernels();

// Compares every kernel of the set with plain loops, over all row counts and odd sizes. Errors:
// kUnsupported with the kernel and the size.
Status verify_gemm_kernels(const GemmKernels& kernels);

// The shape that wastes least on a matrix of so many columns.
const GemmShape& pick_gemm_shape(const GemmKernels& kernels, size_t columns);

// Floats of a panel for `depth` rows of B.
inline uint64_t panel_floats(size_t nr, size_t depth) { return uint64_t{nr} * depth + nr; }
// Writes zero biases; returns where the rows of B start.
float* begin_panel(size_t nr, float* panel);
// Copies `columns` <= nr values of each row of B; row r starts at b + r * b_stride. What lies
// beyond in the panel is left as it is: it only reaches columns that aren't stored.
void pack_rows(const float* b, size_t b_stride, size_t depth, size_t columns, size_t nr,
               float* panel_rows);

// c[rows][columns] = a[rows][depth] * panel, for any number of rows and columns <= nr.
void multiply_panel(const GemmShape& shape, size_t rows, size_t columns, size_t depth,
                    const float* a, size_t a_stride, const float* panel, float* c, size_t c_stride);

// to[column][row] = from[row][column]. Packs a panel from a transposed B too: to_stride is nr then.
void transpose(const float* from, size_t from_stride, size_t rows, size_t columns, float* to,
               size_t to_stride);

// Counts are 64-bit where a 32-bit machine might be asked for more than it can address.
//
// Hands out pieces of a layer's scratch, each on a cache line. Taking more than there is stops the
// program: layers count with ScratchSize in the same order.
class Scratch {
 public:
  explicit Scratch(std::span<float> floats) : rest_(floats) {}
  float* take(uint64_t floats);

 private:
  std::span<float> rest_;
};

class ScratchSize {
 public:
  ScratchSize& add(uint64_t floats) {
    floats_ += rounded(floats);
    return *this;
  }
  uint64_t floats() const { return floats_; }
  static uint64_t rounded(uint64_t floats) { return (floats + 15) / 16 * 16; }

 private:
  uint64_t floats_ = 0;
};

}  // namespace paceline
