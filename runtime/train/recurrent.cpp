#include "runtime/train/recurrent.h"

#include <algorithm>

#include "runtime/train/loops.h"
#include "runtime/train/math.h"

namespace paceline {
namespace {

constexpr size_t kLanes = 4;  // values a unit and step: a gate each, or n's recurrent product

// Sizes and the place of each step's values in the scratch memory.
class Steps {
 public:
  Steps(Cell cell, const LayerSpec& spec, float* memory)
      : gru(cell == Cell::kGru), gates(gru ? 3 : 4), units(spec.units), memory_(memory) {
    const Signal signal = *signal_of(spec.input_shape);
    channels = signal.channels;
    length = signal.length;
    columns = channels + units;
    stride_ = columns + kLanes * units + (gru ? 0 : units);
  }

  // The input, [channels]; the state before the step, [units]; the gates' values, [kLanes][units];
  // the cell's content before the step, [units], of an LSTM.
  float* input(size_t step) const { return memory_ + step * stride_; }
  float* state(size_t step) const { return input(step) + channels; }
  float* cell(size_t step) const { return state(step) + units; }
  float* lanes(size_t step) const { return cell(step) + (gru ? 0 : units); }
  // Of the backward pass, behind all steps: gradients by the lanes, by input and state, by the
  // cell.
  float* lane_gradient() const { return input(length + 1); }
  float* column_gradient() const { return lane_gradient() + kLanes * units; }
  float* cell_gradient() const { return column_gradient() + columns; }
  uint64_t floats() const {
    return (uint64_t{length} + 1) * stride_ + (kLanes + 1) * uint64_t{units} + columns;
  }
  // Which lane the recurrent part of a gate belongs to.
  size_t recurrent_lane(size_t gate) const { return gru && gate == 2 ? 3 : gate; }

  const bool gru;
  const size_t gates, units;
  size_t channels = 0, length = 0, columns = 0;

 private:
  float* memory_;
  size_t stride_ = 0;
};

// Once each in the program: inlined they would be its largest code.
[[gnu::noinline]] float product(const float* a, const float* b, size_t count) {
  return dot(a, b, count);
}
[[gnu::noinline]] void add_to(float* y, float factor, const float* x, size_t count) {
  add_scaled(factor, x, y, count);
}

void lstm_step(const Steps& s, size_t step) {
  float* lane = s.lanes(step);
  for (size_t u = 0; u < s.units; ++u, ++lane) {
    float& i = lane[0];
    float& f = lane[s.units];
    float& g = lane[2 * s.units];
    float& o = lane[3 * s.units];
    i = sigmoid_of(i);
    f = sigmoid_of(f + 1.0f);
    g = tanh_of(g);
    o = sigmoid_of(o);
    const float content = f * s.cell(step)[u] + i * g;
    s.cell(step + 1)[u] = content;
    s.state(step + 1)[u] = o * tanh_of(content);
  }
}

void gru_step(const Steps& s, size_t step) {
  float* lane = s.lanes(step);
  for (size_t u = 0; u < s.units; ++u, ++lane) {
    float& r = lane[0];
    float& z = lane[s.units];
    float& n = lane[2 * s.units];
    r = sigmoid_of(r);
    z = sigmoid_of(z);
    n = tanh_of(n + r * lane[3 * s.units]);
    s.state(step + 1)[u] = n + z * (s.state(step)[u] - n);
  }
}

// One row's steps from a state of zero; all that they were made from stays in the memory.
void run_steps(const Steps& s, const float* weight, const float* bias, const float* row) {
  std::fill_n(s.state(0), s.columns - s.channels, 0.0f);
  if (!s.gru) std::fill_n(s.cell(0), s.units, 0.0f);
  for (size_t step = 0; step < s.length; ++step) {
    for (size_t c = 0; c < s.channels; ++c) s.input(step)[c] = row[c * s.length + step];
    float* lanes = s.lanes(step);
    std::copy_n(bias, kLanes * s.units, lanes);
    for (size_t gate = 0; gate < s.gates; ++gate)
      for (size_t u = 0; u < s.units; ++u) {
        const float* w = weight + (gate * s.units + u) * s.columns;
        lanes[gate * s.units + u] += product(w, s.input(step), s.channels);
        lanes[s.recurrent_lane(gate) * s.units + u] +=
            product(w + s.channels, s.state(step), s.units);
      }
    if (s.gru)
      gru_step(s, step);
    else
      lstm_step(s, step);
  }
}

// From the gradient by the state after a step, `dh`, to those by the lanes and the cell before it.
void lstm_step_back(const Steps& s, size_t step, const float* dh) {
  const float* lane = s.lanes(step);
  float* d = s.lane_gradient();
  for (size_t u = 0; u < s.units; ++u, ++lane, ++d) {
    const float i = lane[0], f = lane[s.units], g = lane[2 * s.units], o = lane[3 * s.units];
    const float squashed = tanh_of(s.cell(step + 1)[u]);
    const float dc = s.cell_gradient()[u] + dh[u] * o * (1.0f - squashed * squashed);
    d[0] = dc * g * i * (1.0f - i);
    d[s.units] = dc * s.cell(step)[u] * f * (1.0f - f);
    d[2 * s.units] = dc * i * (1.0f - g * g);
    d[3 * s.units] = dh[u] * squashed * o * (1.0f - o);
    s.cell_gradient()[u] = dc * f;
  }
}

void gru_step_back(const Steps& s, size_t step, const float* dh) {
  const float* lane = s.lanes(step);
  float* d = s.lane_gradient();
  for (size_t u = 0; u < s.units; ++u, ++lane, ++d) {
    const float r = lane[0], z = lane[s.units], n = lane[2 * s.units], q = lane[3 * s.units];
    d[2 * s.units] = dh[u] * (1.0f - z) * (1.0f - n * n);
    d[3 * s.units] = d[2 * s.units] * r;
    d[0] = d[2 * s.units] * q * r * (1.0f - r);
    d[s.units] = dh[u] * (s.state(step)[u] - n) * z * (1.0f - z);
  }
}

// From the gradients by the lanes to those by the parameters, the input and the state before.
void columns_back(const Steps& s, size_t step, const BackwardPass& pass) {
  const float* d = s.lane_gradient();
  float* dx = s.column_gradient();
  float* dh = dx + s.channels;
  std::fill_n(dx, s.channels, 0.0f);
  for (size_t u = 0; u < s.units; ++u) dh[u] = s.gru ? dh[u] * s.lanes(step)[s.units + u] : 0.0f;
  for (size_t i = 0; i < kLanes * s.units; ++i) pass.bias_gradient[i] += d[i];
  for (size_t gate = 0; gate < s.gates; ++gate)
    for (size_t u = 0; u < s.units; ++u) {
      const size_t row = (gate * s.units + u) * s.columns;
      const float* w = pass.weight.data() + row;
      float* dw = pass.weight_gradient.data() + row;
      const float by_input = d[gate * s.units + u];
      const float by_state = d[s.recurrent_lane(gate) * s.units + u];
      add_to(dw, by_input, s.input(step), s.channels);
      add_to(dw + s.channels, by_state, s.state(step), s.units);
      add_to(dx, by_input, w, s.channels);
      add_to(dh, by_state, w + s.channels, s.units);
    }
}

void steps_back(const Steps& s, const BackwardPass& pass, bool sequence, const float* dy,
                float* row_gradient) {
  float* dh = s.column_gradient() + s.channels;
  std::fill_n(dh, s.units, 0.0f);
  std::fill_n(s.cell_gradient(), s.units, 0.0f);
  for (size_t step = s.length; step-- > 0;) {
    if (sequence || step + 1 == s.length)
      for (size_t u = 0; u < s.units; ++u) dh[u] += sequence ? dy[u * s.length + step] : dy[u];
    if (s.gru)
      gru_step_back(s, step, dh);
    else
      lstm_step_back(s, step, dh);
    columns_back(s, step, pass);
    for (size_t c = 0; c < s.channels && row_gradient; ++c)
      row_gradient[c * s.length + step] = s.column_gradient()[c];
  }
}

}  // namespace

Status infer_recurrent(LayerSpec& spec) {
  PACELINE_ASSIGN(const Signal signal, signal_of(spec.input_shape));
  if (spec.sequence)
    spec.output_shape = {spec.units, 1, signal.length};
  else
    spec.output_shape = {spec.units};
  return {};
}

void append_recurrent(Cell cell, const LayerSpec& spec, std::vector<TensorSpec>& tensors) {
  const uint32_t rows = (cell == Cell::kGru ? 3 : 4) * spec.units;
  const uint32_t columns = signal_of(spec.input_shape)->channels + spec.units;
  tensors.push_back({spec.name + ".weight", TensorClass::kWeight, {rows, columns}});
  tensors.push_back({spec.name + ".bias", TensorClass::kBias, {4 * spec.units}});
}

uint64_t recurrent_work_floats(Cell cell, const LayerSpec& spec) {
  return Steps(cell, spec, nullptr).floats();
}

void recurrent_forward(Cell cell, const LayerSpec& spec, const ForwardPass& pass) {
  const Steps s(cell, spec, pass.scratch.data());
  for (size_t row = 0; row < pass.batch; ++row) {
    run_steps(s, pass.weight.data(), pass.bias.data(),
              pass.input.data() + row * s.channels * s.length);
    float* y = pass.output.data() + row * s.units * (spec.sequence ? s.length : 1);
    if (!spec.sequence) std::copy_n(s.state(s.length), s.units, y);
    for (size_t step = 0; step < s.length && spec.sequence; ++step)
      for (size_t u = 0; u < s.units; ++u) y[u * s.length + step] = s.state(step + 1)[u];
  }
}

void recurrent_backward(Cell cell, const LayerSpec& spec, const BackwardPass& pass) {
  const Steps s(cell, spec, pass.scratch.data());
  std::fill(pass.weight_gradient.begin(), pass.weight_gradient.end(), 0.0f);
  std::fill(pass.bias_gradient.begin(), pass.bias_gradient.end(), 0.0f);
  const size_t features = s.channels * s.length, outputs = s.units * (spec.sequence ? s.length : 1);
  for (size_t row = 0; row < pass.batch; ++row) {
    run_steps(s, pass.weight.data(), pass.bias.data(), pass.input.data() + row * features);
    steps_back(s, pass, spec.sequence != 0, pass.output_gradient.data() + row * outputs,
               pass.input_gradient.empty() ? nullptr : pass.input_gradient.data() + row * features);
  }
}

}  // namespace paceline
