// Convolution on matrix kernels. A position is one output of a filter; its taps are the inputs
// under the filter there. The matrix of all taps is never there as a whole: a panel of it is
// gathered at a time.
//
//   forward           Y[filter][position] = W[filter][tap] * taps[tap][position]
//   input gradient    taps[tap][position] = W^T[tap][filter] * dY[filter][position], added back to
//                     where the taps came from
//   weight gradient   dW[filter][tap] = dY[filter][position] * taps^T[position][tap]
//
// Positions run over a group of images, so that small images fill panels too. Padding is done by
// copying the group into larger, zeroed images.
#include <algorithm>
#include <cstring>

#include "runtime/train/gemm_layers.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

// Positions of a group: enough to fill vectors, few enough that a panel of them stays in a small
// L2.
constexpr size_t kGroupPositions = 1024;
// Keeps rows of a power-of-two length off the same cache sets.
constexpr size_t kRowSlack = 16;

struct Geometry {
  Geometry(const LayerSpec& spec, size_t batch)
      : channels(spec.input_shape[0]),
        height(spec.input_shape[1]),
        width(spec.input_shape[2]),
        filters(spec.filters),
        kernel(spec.kernel),
        stride(spec.stride),
        padding(spec.padding),
        padded_height(height + 2 * padding),
        padded_width(width + 2 * padding),
        output_height(spec.output_shape[1]),
        output_width(spec.output_shape[2]),
        positions(output_height * output_width),
        taps(channels * kernel * kernel),
        image(channels * height * width),
        padded_image(channels * padded_height * padded_width),
        group(std::min(batch, std::max<size_t>(1, kGroupPositions / positions))) {}

  // Calls visit(tap, offset) with the offset of each tap of position 0 in a padded image. Channels
  // change fastest: neighbouring taps overlap, and adding to what was just written stalls.
  template <class Visit>
  void for_each_tap(Visit visit) const {
    for (size_t y = 0; y < kernel; ++y)
      for (size_t x = 0; x < kernel; ++x)
        for (size_t channel = 0; channel < channels; ++channel)
          visit((channel * kernel + y) * kernel + x,
                (channel * padded_height + y) * padded_width + x);
  }

  size_t channels, height, width, filters, kernel, stride, padding;
  size_t padded_height, padded_width, output_height, output_width;
  size_t positions, taps, image, padded_image;
  size_t group;  // images
};

using Quad [[gnu::vector_size(16)]] = float;

// Runs are a few to some dozen floats: in fours, the last of which may overlap the ones before.
void copy_run(const float* from, size_t count, float* to) {
  if (count < 4) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (size_t i = 0; i + 4 <= count; i += 4) std::memcpy(to + i, from + i, sizeof(Quad));
  std::memcpy(to + count - 4, from + count - 4, sizeof(Quad));
}

void copy_run(const float* from, size_t step, size_t count, float* to) {
  if (step == 1) return copy_run(from, count, to);
  for (size_t i = 0; i < count; ++i) to[i] = from[i * step];
}

void add_run(const float* from, size_t count, float* to, size_t step) {
  size_t i = 0;
  if (step == 1)
    for (; i + 4 <= count; i += 4) {
      Quad sum, term;
      std::memcpy(&sum, to + i, sizeof(Quad));
      std::memcpy(&term, from + i, sizeof(Quad));
      sum += term;
      std::memcpy(to + i, &sum, sizeof(Quad));
    }
  for (; i < count; ++i) to[i * step] += from[i];
}

// Columns of one panel that lie together in the padded images: positions of one output row,
// `stride` apart, or taps of one row of a filter.
struct Run {
  size_t column = 0;
  size_t count = 0;
  size_t offset = 0;
};

struct Runs {
  Run list[kGemmColumnsMax];
  size_t count = 0;
};

Runs list_position_runs(const Geometry& g, size_t first, size_t columns) {
  Runs runs;
  for (size_t column = 0; column < columns;) {
    const size_t image = (first + column) / g.positions, position = (first + column) % g.positions;
    const size_t y = position / g.output_width, x = position % g.output_width;
    const size_t count = std::min(g.output_width - x, columns - column);
    runs.list[runs.count++] = {column, count,
                               image * g.padded_image + (y * g.padded_width + x) * g.stride};
    column += count;
  }
  return runs;
}

Runs list_tap_runs(const Geometry& g, size_t first, size_t columns) {
  Runs runs;
  for (size_t column = 0; column < columns;) {
    const size_t tap = first + column;
    const size_t x = tap % g.kernel, y = tap / g.kernel % g.kernel;
    const size_t channel = tap / (g.kernel * g.kernel);
    const size_t count = std::min(g.kernel - x, columns - column);
    runs.list[runs.count++] = {column, count, (channel * g.padded_height + y) * g.padded_width + x};
    column += count;
  }
  return runs;
}

// Calls visit(column, count, image, position) for the parts of a panel that lie in one image.
template <class Visit>
void for_each_image(const Geometry& g, size_t first, size_t columns, Visit visit) {
  for (size_t column = 0; column < columns;) {
    const size_t image = (first + column) / g.positions, position = (first + column) % g.positions;
    const size_t count = std::min(g.positions - position, columns - column);
    visit(column, count, image, position);
    column += count;
  }
}

// The group's images with their border, in `padded`; without padding the images as they are.
const float* pad_images(const Geometry& g, const float* images, size_t count, float* padded) {
  if (g.padding == 0) return images;
  std::fill_n(padded, count * g.padded_image, 0.0f);
  for (size_t plane = 0; plane < count * g.channels; ++plane)
    for (size_t y = 0; y < g.height; ++y)
      std::memcpy(padded + (plane * g.padded_height + y + g.padding) * g.padded_width + g.padding,
                  images + (plane * g.height + y) * g.width, g.width * sizeof(float));
  return padded;
}

void crop_images(const Geometry& g, const float* padded, size_t count, float* images) {
  for (size_t plane = 0; plane < count * g.channels; ++plane)
    for (size_t y = 0; y < g.height; ++y)
      std::memcpy(images + (plane * g.height + y) * g.width,
                  padded + (plane * g.padded_height + y + g.padding) * g.padded_width + g.padding,
                  g.width * sizeof(float));
}

uint64_t padded_floats(const Geometry& g) {
  return g.padding == 0 ? 0 : uint64_t{g.group} * g.padded_image;
}
size_t position_row_floats(const Geometry& g) { return g.group * g.positions + kRowSlack; }

ScratchSize forward_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(panel_floats(shape.nr, g.taps))
      .add(uint64_t{g.filters} * shape.nr);
}

ScratchSize weight_gradient_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(uint64_t{g.filters} * position_row_floats(g))
      .add(panel_floats(shape.nr, g.group * g.positions))
      .add(uint64_t{g.filters} * shape.nr);
}

ScratchSize input_gradient_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(uint64_t{g.taps} * g.filters)
      .add(panel_floats(shape.nr, g.filters))
      .add(uint64_t{g.taps} * shape.nr);
}

// `count` taps of each position of an output row.
template <size_t count>
void gather_row(const float* from, const Geometry& g, size_t nr, float* panel) {
  for (size_t x = 0; x < g.output_width; ++x)
    std::memcpy(panel + x * nr, from + x * g.stride, count * sizeof(float));
}

void gather_row(const float* from, size_t count, const Geometry& g, size_t nr, float* panel) {
  if (count == 1) return gather_row<1>(from, g, nr, panel);
  if (count == 2) return gather_row<2>(from, g, nr, panel);
  if (count == 3) return gather_row<3>(from, g, nr, panel);
  if (count == 5) return gather_row<5>(from, g, nr, panel);
  for (size_t x = 0; x < g.output_width; ++x) copy_run(from + x * g.stride, count, panel + x * nr);
}

// A panel of taps, a row for each position of the group.
void gather_taps(const Geometry& g, const float* images, size_t image_count, const Runs& runs,
                 size_t nr, float* panel_rows) {
  for (size_t image = 0; image < image_count; ++image)
    for (size_t y = 0; y < g.output_height; ++y, panel_rows += g.output_width * nr) {
      const float* row = images + image * g.padded_image + y * g.stride * g.padded_width;
      for (size_t i = 0; i < runs.count; ++i)
        gather_row(row + runs.list[i].offset, runs.list[i].count, g, nr,
                   panel_rows + runs.list[i].column);
    }
}

void compute_weight_gradient(const Geometry& g, const GemmShape& shape, const BackwardPass& pass) {
  Scratch scratch(pass.scratch);
  float* padded = scratch.take(padded_floats(g));
  float* dy_rows = scratch.take(g.filters * position_row_floats(g));
  float* panel = scratch.take(panel_floats(shape.nr, g.group * g.positions));
  float* tile = scratch.take(g.filters * shape.nr);
  float* panel_rows = begin_panel(shape.nr, panel);
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);

  for (size_t first = 0; first < pass.batch; first += g.group) {
    const size_t image_count = std::min(g.group, pass.batch - first);
    const size_t depth = image_count * g.positions;
    const float* images = pad_images(g, pass.input.data() + first * g.image, image_count, padded);
    // A filter's gradients over the whole group in one row.
    const float* dy = pass.output_gradient.data() + first * g.filters * g.positions;
    for (size_t image = 0; image < image_count; ++image)
      for (size_t filter = 0; filter < g.filters; ++filter, dy += g.positions)
        std::copy_n(dy, g.positions,
                    dy_rows + filter * position_row_floats(g) + image * g.positions);
    for (size_t tap = 0; tap < g.taps; tap += shape.nr) {
      const size_t columns = std::min<size_t>(shape.nr, g.taps - tap);
      gather_taps(g, images, image_count, list_tap_runs(g, tap, columns), shape.nr, panel_rows);
      multiply_panel(shape, g.filters, columns, depth, dy_rows, position_row_floats(g), panel, tile,
                     shape.nr);
      for (size_t filter = 0; filter < g.filters; ++filter)
        add_run(tile + filter * shape.nr, columns,
                pass.weight_gradient.data() + filter * g.taps + tap, 1);
    }
  }
}

void compute_input_gradient(const Geometry& g, const GemmShape& shape, const BackwardPass& pass) {
  Scratch scratch(pass.scratch);
  float* padded = scratch.take(padded_floats(g));
  float* weight_transposed = scratch.take(g.taps * g.filters);
  float* panel = scratch.take(panel_floats(shape.nr, g.filters));
  float* tile = scratch.take(g.taps * shape.nr);
  transpose(pass.weight.data(), g.taps, g.filters, g.taps, weight_transposed, g.filters);
  float* panel_rows = begin_panel(shape.nr, panel);
  std::fill(pass.input_gradient.begin(), pass.input_gradient.end(), 0.0f);

  for (size_t first = 0; first < pass.batch; first += g.group) {
    const size_t image_count = std::min(g.group, pass.batch - first);
    float* dx = pass.input_gradient.data() + first * g.image;
    float* sums = g.padding == 0 ? dx : padded;
    if (g.padding != 0) std::fill_n(padded, image_count * g.padded_image, 0.0f);
    const float* dy = pass.output_gradient.data() + first * g.filters * g.positions;
    const size_t columns_all = image_count * g.positions;
    for (size_t column = 0; column < columns_all; column += shape.nr) {
      const size_t columns = std::min<size_t>(shape.nr, columns_all - column);
      for_each_image(g, column, columns,
                     [&](size_t to, size_t count, size_t image, size_t position) {
                       pack_rows(dy + image * g.filters * g.positions + position, g.positions,
                                 g.filters, count, shape.nr, panel_rows + to);
                     });
      multiply_panel(shape, g.taps, columns, g.filters, weight_transposed, g.filters, panel, tile,
                     shape.nr);
      const Runs runs = list_position_runs(g, column, columns);
      g.for_each_tap([&](size_t tap, size_t offset) {
        for (size_t i = 0; i < runs.count; ++i)
          add_run(tile + tap * shape.nr + runs.list[i].column, runs.list[i].count,
                  sums + offset + runs.list[i].offset, g.stride);
      });
    }
    if (g.padding != 0) crop_images(g, padded, image_count, dx);
  }
}

}  // namespace

uint64_t conv2d_scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch) {
  const Geometry g(spec, batch);
  uint64_t most = 0;
  for (const GemmShape& shape : kernels.shapes)
    most = std::max({most, forward_scratch(g, shape).floats(),
                     weight_gradient_scratch(g, shape).floats(),
                     input_gradient_scratch(g, shape).floats()});
  return most;
}

void conv2d_gemm_forward(const LayerSpec& spec, const GemmKernels& kernels,
                         const ForwardPass& pass) {
  const Geometry g(spec, pass.batch);
  const GemmShape& shape = pick_gemm_shape(kernels, g.group * g.positions);
  Scratch scratch(pass.scratch);
  float* padded = scratch.take(padded_floats(g));
  float* panel = scratch.take(panel_floats(shape.nr, g.taps));
  float* tile = scratch.take(g.filters * shape.nr);
  for (size_t first = 0; first < pass.batch; first += g.group) {
    const size_t image_count = std::min(g.group, pass.batch - first);
    const float* images = pad_images(g, pass.input.data() + first * g.image, image_count, padded);
    float* y = pass.output.data() + first * g.filters * g.positions;
    const size_t columns_all = image_count * g.positions;
    for (size_t column = 0; column < columns_all; column += shape.nr) {
      const size_t columns = std::min<size_t>(shape.nr, columns_all - column);
      const Runs runs = list_position_runs(g, column, columns);
      float* panel_rows = begin_panel(shape.nr, panel);
      g.for_each_tap([&](size_t tap, size_t offset) {
        for (size_t i = 0; i < runs.count; ++i)
          copy_run(images + offset + runs.list[i].offset, g.stride, runs.list[i].count,
                   panel_rows + tap * shape.nr + runs.list[i].column);
      });
      multiply_panel(shape, g.filters, columns, g.taps, pass.weight.data(), g.taps, panel, tile,
                     shape.nr);
      for_each_image(g, column, columns,
                     [&](size_t from, size_t count, size_t image, size_t position) {
                       for (size_t filter = 0; filter < g.filters; ++filter) {
                         float* to = y + (image * g.filters + filter) * g.positions + position;
                         const float* values = tile + filter * shape.nr + from;
                         for (size_t i = 0; i < count; ++i) to[i] = values[i] + pass.bias[filter];
                       }
                     });
    }
  }
}

void conv2d_gemm_backward(const LayerSpec& spec, const GemmKernels& kernels,
                          const BackwardPass& pass) {
  const Geometry g(spec, pass.batch);
  for (size_t filter = 0; filter < g.filters; ++filter) {
    LaneSum<16> sum;
    for (size_t image = 0; image < pass.batch; ++image)
      sum.add(pass.output_gradient.data() + (image * g.filters + filter) * g.positions,
              g.positions);
    pass.bias_gradient[filter] = sum.total();
  }
  compute_weight_gradient(g, pick_gemm_shape(kernels, g.taps), pass);
  if (!pass.input_gradient.empty())
    compute_input_gradient(g, pick_gemm_shape(kernels, g.group * g.positions), pass);
}

}  // namespace paceline
