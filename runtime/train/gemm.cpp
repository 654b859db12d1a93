#include "runtime/train/gemm.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "runtime/base/check.h"

namespace paceline {
namespace {

// XNNPACK's xnn_f32_minmax_params: no clamping.
constexpr float kNoClamp[2] = {-std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::infinity()};

using Quad [[gnu::vector_size(16)]] = float;

Quad load(const float* from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof(quad));
  return quad;
}

void store(Quad quad, float* to) { std::memcpy(to, &quad, sizeof(quad)); }

void transpose_4x4(const float* from, size_t from_stride, float* to, size_t to_stride) {
  const Quad a = load(from), b = load(from + from_stride);
  const Quad c = load(from + 2 * from_stride), d = load(from + 3 * from_stride);
  const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  store(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), to);
  store(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), to + to_stride);
  store(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * to_stride);
  store(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * to_stride);
}

template <size_t columns>
void pack_whole_rows(const float* b, size_t b_stride, size_t depth, float* panel_rows) {
  for (size_t row = 0; row < depth; ++row)
    std::memcpy(panel_rows + row * columns, b + row * b_stride, columns * sizeof(float));
}

}  // namespace

// A wider shape is faster, so it may waste up to half as much again as a narrower one.
const GemmShape& pick_gemm_shape(const GemmKernels& kernels, size_t columns) {
  const auto computed = [columns](const GemmShape& shape) {
    return (columns + shape.nr - 1) / shape.nr * shape.nr;
  };
  const GemmShape* best = &kernels.shapes.front();
  for (const GemmShape& shape : kernels.shapes.subspan(1))
    if (3 * computed(shape) < 2 * computed(*best)) best = &shape;
  return *best;
}

float* begin_panel(size_t nr, float* panel) {
  std::fill_n(panel, nr, 0.0f);
  return panel + nr;
}

void pack_rows(const float* b, size_t b_stride, size_t depth, size_t columns, size_t nr,
               float* panel_rows) {
  if (columns == nr && nr == 32) return pack_whole_rows<32>(b, b_stride, depth, panel_rows);
  if (columns == nr && nr == 16) return pack_whole_rows<16>(b, b_stride, depth, panel_rows);
  if (columns == nr && nr == 8) return pack_whole_rows<8>(b, b_stride, depth, panel_rows);
  for (size_t row = 0; row < depth; ++row)
    std::memcpy(panel_rows + row * nr, b + row * b_stride, columns * sizeof(float));
}

void multiply_panel(const GemmShape& shape, size_t rows, size_t columns, size_t depth,
                    const float* a, size_t a_stride, const float* panel, float* c,
                    size_t c_stride) {
  constexpr size_t kFloat = sizeof(float);
  size_t row = 0;
  while (row < rows) {
    const size_t left = rows - row;
    // Few rows are cheaper one by one than as a block that computes mr of them.
    const bool one = left < shape.mr && 2 * left < shape.mr;
    const size_t count = one ? 1 : std::min<size_t>(left, shape.mr);
    (one ? shape.row : shape.block)(count, columns, depth * kFloat, a + row * a_stride,
                                    a_stride * kFloat, panel, c + row * c_stride, c_stride * kFloat,
                                    shape.nr * kFloat, kNoClamp);
    row += count;
  }
}

void transpose(const float* from, size_t from_stride, size_t rows, size_t columns, float* to,
               size_t to_stride) {
  size_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const float* block = from + row * from_stride;
    size_t column = 0;
    for (; column + 4 <= columns; column += 4)
      transpose_4x4(block + column, from_stride, to + column * to_stride + row, to_stride);
    for (; column < columns; ++column)
      for (size_t i = 0; i < 4; ++i)
        to[column * to_stride + row + i] = block[i * from_stride + column];
  }
  for (; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      to[column * to_stride + row] = from[row * from_stride + column];
}

float* Scratch::take(uint64_t floats) {
  const uint64_t rounded = ScratchSize::rounded(floats);
  PACELINE_CHECK(rounded <= rest_.size());
  float* taken = rest_.data();
  rest_ = rest_.subspan(static_cast<size_t>(rounded));
  return taken;
}

}  // namespace paceline
