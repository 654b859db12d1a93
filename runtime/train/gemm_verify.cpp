// Which kernel sets may be used. The micro-kernels are an internal interface of another project, so
// each is tried against plain loops before the first step; what fails is left out, and training
// goes on.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/train/gemm.h"

namespace paceline {
namespace {

constexpr size_t kDepths[] = {1, 2, 3, 4, 5, 7, 8, 13};
constexpr size_t kDepthMax = 13;
constexpr float kGuard = 12345.0f;
// Values lie in [-1, 1): 13 products and a bias round to far less.
constexpr double kTolerance = 1e-5;

struct Trial {
  size_t rows, columns, depth;
};

// Strides are wider than the data, and what lies between must stay as it was.
struct TrialData {
  static constexpr size_t kAStride = kDepthMax + 2;
  static constexpr size_t kCStride = kGemmColumnsMax + 3;
  float a[kGemmRowsMax * kAStride];
  alignas(64) float panel[(kDepthMax + 1) * kGemmColumnsMax];
  float c[(kGemmRowsMax + 1) * kCStride];
};

bool agrees(GemmMicroKernel* kernel, size_t nr, const Trial& trial, TrialData& data) {
  std::fill(std::begin(data.c), std::end(data.c), kGuard);
  const float no_clamp[2] = {-INFINITY, INFINITY};
  kernel(trial.rows, trial.columns, trial.depth * sizeof(float), data.a,
         TrialData::kAStride * sizeof(float), data.panel, data.c,
         TrialData::kCStride * sizeof(float), nr * sizeof(float), no_clamp);
  for (size_t i = 0; i < std::size(data.c); ++i) {
    const size_t row = i / TrialData::kCStride, column = i % TrialData::kCStride;
    double expected = static_cast<double>(kGuard);
    if (row < trial.rows && column < trial.columns) {
      expected = static_cast<double>(data.panel[column]);
      for (size_t k = 0; k < trial.depth; ++k)
        expected += static_cast<double>(data.a[row * TrialData::kAStride + k]) *
                    static_cast<double>(data.panel[(k + 1) * nr + column]);
    }
    if (!(std::abs(static_cast<double>(data.c[i]) - expected) <= kTolerance)) return false;
  }
  return true;
}

Status verify_kernel(GemmMicroKernel* kernel, const GemmShape& shape, size_t rows_max,
                     TrialData& data) {
  for (size_t rows = 1; rows <= rows_max; ++rows)
    for (size_t columns = 1; columns <= shape.nr; columns += columns < 4 ? 1 : 3)
      for (size_t depth : kDepths)
        for (size_t width : {columns, size_t{shape.nr}})
          if (!agrees(kernel, shape.nr, {rows, width, depth}, data))
            return fail(Code::kUnsupported,
                        "kernel %ux%u gives a wrong product for %zu x %zu x %zu", shape.mr,
                        shape.nr, rows, width, depth);
  return {};
}

std::vector<const GemmKernels*> list_usable() {
  std::vector<const GemmKernels*> usable;
  for (const std::span<const GemmKernels> sets : {xnnpack_gemm_kernels(), own_gemm_kernels()})
    for (const GemmKernels& kernels : sets) {
      if (!kernels.cpu_can()) continue;
      if (const Status status = verify_gemm_kernels(kernels); status.ok())
        usable.push_back(&kernels);
      else
        log_warning("training backend %s is left out: %s", kernels.name, status.message().c_str());
    }
  return usable;
}

}  // namespace

Status verify_gemm_kernels(const GemmKernels& kernels) {
  TrialData data;
  Random random(1, 0);
  for (float& value : data.a) value = random.symmetric();
  for (float& value : data.panel) value = random.symmetric();
  for (const GemmShape& shape : kernels.shapes) {
    if (shape.mr > kGemmRowsMax || shape.nr > kGemmColumnsMax)
      return fail(Code::kUnsupported, "kernel %ux%u is larger than %zux%zu", shape.mr, shape.nr,
                  kGemmRowsMax, kGemmColumnsMax);
    PACELINE_TRY(verify_kernel(shape.block, shape, shape.mr, data));
    PACELINE_TRY(verify_kernel(shape.row, shape, 1, data));
  }
  return {};
}

std::span<const GemmKernels* const> usable_gemm_kernels() {
  static const std::vector<const GemmKernels*> usable = list_usable();
  return usable;
}

}  // namespace paceline
