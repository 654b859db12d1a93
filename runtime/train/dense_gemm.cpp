// Dense layers on matrix kernels.
//
//   forward           Y^T = W X^T      weights streamed, batch packed
//   weight gradient   dW = dY^T X      batch packed as it lies
//   input gradient    dX = dY W        weights copied panel by panel while they are in the cache
#include <algorithm>

#include "runtime/train/gemm_layers.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

// Output rows of W X^T that are turned back into batch rows at a time.
size_t tile_rows(const GemmShape& shape) { return size_t{4} * shape.mr; }

// Below this a panel computes mostly columns that aren't there, and plain dot products win.
// Measured on AVX-512 with nr = 32; they share a load of the weights between four rows.
bool is_small(size_t rows, const GemmShape& shape) { return 4 * rows <= shape.nr; }

// Sixteen lanes each, as dot().
void dot_four(const float* __restrict w, const float* __restrict x, size_t x_stride, size_t count,
              float sums[4]) {
  constexpr size_t kLanes = 16;
  float lanes[4][kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t row = 0; row < 4; ++row)
      for (size_t lane = 0; lane < kLanes; ++lane)
        lanes[row][lane] += w[i + lane] * x[row * x_stride + i + lane];
  for (; i < count; ++i)
    for (size_t row = 0; row < 4; ++row) lanes[row][0] += w[i] * x[row * x_stride + i];
  for (size_t row = 0; row < 4; ++row) {
    sums[row] = 0.0f;
    for (size_t lane = 0; lane < kLanes; ++lane) sums[row] += lanes[row][lane];
  }
}

void forward_small(const float* weight, size_t units, size_t features, const float* x, size_t rows,
                   float* y) {
  for (size_t unit = 0; unit < units; ++unit) {
    const float* w = weight + unit * features;
    size_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      float sums[4];
      dot_four(w, x + row * features, features, features, sums);
      for (size_t i = 0; i < 4; ++i) y[(row + i) * units + unit] = sums[i];
    }
    for (; row < rows; ++row) y[row * units + unit] = dot(w, x + row * features, features);
  }
}

// A single row gains nothing from packing: each weight is used once.
void backward_single(const BackwardPass& pass, size_t features, size_t units) {
  const float* __restrict x = pass.input.data();
  const float* dy = pass.output_gradient.data();
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);
  for (size_t unit = 0; unit < units; ++unit) {
    float* __restrict dw = pass.weight_gradient.data() + unit * features;
    const float factor = dy[unit];
    for (size_t i = 0; i < features; ++i) dw[i] = factor * x[i];
    if (!pass.input_gradient.empty())
      add_scaled(factor, pass.weight.data() + unit * features, pass.input_gradient.data(),
                 features);
  }
}

}  // namespace

uint64_t dense_scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch) {
  const size_t features = spec.input_shape[0], units = spec.units;
  uint64_t most = 0;
  for (const GemmShape& shape : kernels.shapes) {
    ScratchSize forward, backward;
    forward.add(panel_floats(shape.nr, features)).add(tile_rows(shape) * shape.nr);
    backward.add(uint64_t{units} * batch).add(panel_floats(shape.nr, std::max(batch, units)));
    most = std::max({most, forward.floats(), backward.floats()});
  }
  return most;
}

void dense_gemm_forward(const LayerSpec& spec, const GemmKernels& kernels,
                        const ForwardPass& pass) {
  const size_t features = spec.input_shape[0], units = spec.units;
  const GemmShape& shape = pick_gemm_shape(kernels, pass.batch);
  Scratch scratch(pass.scratch);
  float* panel = scratch.take(panel_floats(shape.nr, features));
  float* tile = scratch.take(tile_rows(shape) * shape.nr);
  for (size_t row = 0; row < pass.batch; row += shape.nr) {
    const size_t rows = std::min<size_t>(shape.nr, pass.batch - row);
    const float* x = pass.input.data() + row * features;
    float* y = pass.output.data() + row * units;
    if (is_small(rows, shape)) {
      forward_small(pass.weight.data(), units, features, x, rows, y);
    } else {
      transpose(x, features, rows, features, begin_panel(shape.nr, panel), shape.nr);
      for (size_t unit = 0; unit < units; unit += tile_rows(shape)) {
        const size_t count = std::min(tile_rows(shape), units - unit);
        multiply_panel(shape, count, rows, features, pass.weight.data() + unit * features, features,
                       panel, tile, shape.nr);
        transpose(tile, shape.nr, count, rows, y + unit, units);
      }
    }
    for (size_t i = 0; i < rows; ++i) add_scaled(1.0f, pass.bias.data(), y + i * units, units);
  }
}

void dense_gemm_backward(const LayerSpec& spec, const GemmKernels& kernels,
                         const BackwardPass& pass) {
  const size_t features = spec.input_shape[0], units = spec.units, batch = pass.batch;
  const float* dy = pass.output_gradient.data();
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  for (size_t row = 0; row < batch; ++row)
    add_scaled(1.0f, dy + row * units, pass.bias_gradient.data(), units);
  if (batch == 1) return backward_single(pass, features, units);

  const GemmShape& shape = pick_gemm_shape(kernels, features);
  Scratch scratch(pass.scratch);
  float* dy_transposed = scratch.take(units * batch);
  float* panel = scratch.take(panel_floats(shape.nr, std::max(batch, units)));
  float* panel_rows = begin_panel(shape.nr, panel);
  transpose(dy, units, batch, units, dy_transposed, batch);
  for (size_t feature = 0; feature < features; feature += shape.nr) {
    const size_t columns = std::min<size_t>(shape.nr, features - feature);
    pack_rows(pass.input.data() + feature, features, batch, columns, shape.nr, panel_rows);
    multiply_panel(shape, units, columns, batch, dy_transposed, batch, panel,
                   pass.weight_gradient.data() + feature, features);
    if (pass.input_gradient.empty()) continue;
    pack_rows(pass.weight.data() + feature, features, units, columns, shape.nr, panel_rows);
    multiply_panel(shape, batch, columns, units, dy, units, panel,
                   pass.input_gradient.data() + feature, features);
  }
}

}  // namespace paceline
