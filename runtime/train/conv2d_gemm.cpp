// Convolution on matrix kernels. A column of the products is one output position; rows of a
// position's window ("taps") are gathered panel by panel, so the window matrix is never there as a
// whole.
//
//   forward           Y = W * taps          panels of positions
//   input gradient    taps = W^T * dY       panels of positions, added back to where taps came from
//   weight gradient   dW^T = taps * dY^T    dY packed, tap rows gathered a block at a time
//
// Positions run over a group of images, so that small images fill panels too. Padding is done by
// copying the group into larger, zeroed images.
#include <algorithm>
#include <cstring>

#include "runtime/train/gemm_layers.h"

namespace paceline {
namespace {

// Positions of a group: enough to fill vectors, few enough that the packed dY stays in a small L2.
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

  // Where a tap of the window at position 0 lies in a padded image.
  size_t tap_offset(size_t tap) const {
    const size_t x = tap % kernel, y = tap / kernel % kernel, channel = tap / (kernel * kernel);
    return (channel * padded_height + y) * padded_width + x;
  }

  size_t channels, height, width, filters, kernel, stride, padding;
  size_t padded_height, padded_width, output_height, output_width;
  size_t positions, taps, image, padded_image;
  size_t group;  // images
};

void copy_run(const float* from, size_t step, size_t count, float* to) {
  if (step != 1) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i * step];
    return;
  }
  // Runs are a few to some dozen floats: in fours, the last four may overlap the ones before.
  constexpr size_t kFour = 4 * sizeof(float);
  if (count < 4) {
    for (size_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (size_t i = 0; i + 4 <= count; i += 4) std::memcpy(to + i, from + i, kFour);
  std::memcpy(to + count - 4, from + count - 4, kFour);
}

void add_run(const float* __restrict from, size_t count, float* __restrict to, size_t step) {
  if (step == 1)
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
  else
    for (size_t i = 0; i < count; ++i) to[i * step] += from[i];
}

// Positions of one panel that lie in one output row: their taps are `stride` apart.
struct Run {
  size_t column = 0;  // of the panel
  size_t count = 0;
  size_t offset = 0;  // of the window's corner, in the group's padded images
};

struct Runs {
  Run list[kGemmColumnsMax];
  size_t count = 0;
};

Runs list_runs(const Geometry& g, size_t first, size_t columns) {
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

size_t padded_floats(const Geometry& g) { return g.padding == 0 ? 0 : g.group * g.padded_image; }
size_t tap_row_floats(const Geometry& g) { return g.group * g.positions + kRowSlack; }
size_t panel_count(const Geometry& g, const GemmShape& shape) {
  return (g.filters + shape.nr - 1) / shape.nr;
}

ScratchSize forward_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(panel_floats(shape.nr, g.taps))
      .add(g.filters * shape.nr);
}

ScratchSize weight_gradient_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(panel_count(g, shape) * panel_floats(shape.nr, g.group * g.positions))
      .add(shape.mr * tap_row_floats(g))
      .add(shape.mr * shape.nr)
      .add(panel_count(g, shape) * g.taps * shape.nr);
}

ScratchSize input_gradient_scratch(const Geometry& g, const GemmShape& shape) {
  return ScratchSize()
      .add(padded_floats(g))
      .add(g.taps * g.filters)
      .add(panel_floats(shape.nr, g.filters))
      .add(g.taps * shape.nr);
}

// taps `first` to `first + count` of every position of the group, a row each.
void gather_tap_rows(const Geometry& g, const float* images, size_t image_count, size_t first,
                     size_t count, float* rows) {
  for (size_t i = 0; i < count; ++i) {
    const float* tap = images + g.tap_offset(first + i);
    float* to = rows + i * tap_row_floats(g);
    for (size_t image = 0; image < image_count; ++image)
      for (size_t y = 0; y < g.output_height; ++y, to += g.output_width)
        copy_run(tap + image * g.padded_image + y * g.stride * g.padded_width, g.stride,
                 g.output_width, to);
  }
}

void compute_weight_gradient(const Geometry& g, const GemmShape& shape, const BackwardPass& pass) {
  Scratch scratch(pass.scratch);
  float* padded = scratch.take(padded_floats(g));
  float* panels =
      scratch.take(panel_count(g, shape) * panel_floats(shape.nr, g.group * g.positions));
  float* rows = scratch.take(shape.mr * tap_row_floats(g));
  float* tile = scratch.take(shape.mr * shape.nr);
  float* sums = scratch.take(panel_count(g, shape) * g.taps * shape.nr);  // [panel][tap][nr]
  std::fill_n(sums, panel_count(g, shape) * g.taps * shape.nr, 0.0f);

  for (size_t first = 0; first < pass.batch; first += g.group) {
    const size_t image_count = std::min(g.group, pass.batch - first);
    const size_t depth = image_count * g.positions;
    const float* images = pad_images(g, pass.input.data() + first * g.image, image_count, padded);
    const float* dy = pass.output_gradient.data() + first * g.filters * g.positions;
    for (size_t filter = 0; filter < g.filters; filter += shape.nr) {
      float* to = begin_panel(shape.nr, panels + filter / shape.nr * panel_floats(shape.nr, depth));
      for (size_t image = 0; image < image_count; ++image)
        transpose(dy + (image * g.filters + filter) * g.positions, g.positions,
                  std::min<size_t>(shape.nr, g.filters - filter), g.positions,
                  to + image * g.positions * shape.nr, shape.nr);
    }
    for (size_t tap = 0; tap < g.taps; tap += shape.mr) {
      const size_t count = std::min<size_t>(shape.mr, g.taps - tap);
      gather_tap_rows(g, images, image_count, tap, count, rows);
      for (size_t filter = 0; filter < g.filters; filter += shape.nr) {
        const size_t columns = std::min<size_t>(shape.nr, g.filters - filter);
        const size_t index = filter / shape.nr;
        multiply_panel(shape, count, columns, depth, rows, tap_row_floats(g),
                       panels + index * panel_floats(shape.nr, depth), tile, shape.nr);
        float* sum = sums + (index * g.taps + tap) * shape.nr;
        for (size_t i = 0; i < count; ++i)
          add_run(tile + i * shape.nr, columns, sum + i * shape.nr, 1);
      }
    }
  }
  for (size_t filter = 0; filter < g.filters; filter += shape.nr)
    transpose(sums + filter * g.taps, shape.nr, g.taps,
              std::min<size_t>(shape.nr, g.filters - filter),
              pass.weight_gradient.data() + filter * g.taps, g.taps);
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
      const Runs runs = list_runs(g, column, columns);
      for (size_t tap = 0; tap < g.taps; ++tap)
        for (size_t i = 0; i < runs.count; ++i)
          add_run(tile + tap * shape.nr + runs.list[i].column, runs.list[i].count,
                  sums + g.tap_offset(tap) + runs.list[i].offset, g.stride);
    }
    if (g.padding != 0) crop_images(g, padded, image_count, dx);
  }
}

}  // namespace

size_t conv2d_scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch) {
  const Geometry g(spec, batch);
  size_t most = 0;
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
      const Runs runs = list_runs(g, column, columns);
      float* panel_row = begin_panel(shape.nr, panel);
      for (size_t tap = 0; tap < g.taps; ++tap, panel_row += shape.nr)
        for (size_t i = 0; i < runs.count; ++i)
          copy_run(images + g.tap_offset(tap) + runs.list[i].offset, g.stride, runs.list[i].count,
                   panel_row + runs.list[i].column);
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
    float sum = 0.0f;
    for (size_t image = 0; image < pass.batch; ++image) {
      const float* dy = pass.output_gradient.data() + (image * g.filters + filter) * g.positions;
      for (size_t i = 0; i < g.positions; ++i) sum += dy[i];
    }
    pass.bias_gradient[filter] = sum;
  }
  compute_weight_gradient(g, pick_gemm_shape(kernels, g.filters), pass);
  if (!pass.input_gradient.empty())
    compute_input_gradient(g, pick_gemm_shape(kernels, g.group * g.positions), pass);
}

}  // namespace paceline
