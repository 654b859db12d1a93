// Rules for LSTM, GRU, and for Gather: an embedding, or a cell's last state.
#include <algorithm>

#include "server/onnx/import_state.h"

namespace paceline {
namespace {

// The graph's order of gates by ours, of recurrent.h: ONNX has LSTM as i o f c and GRU as z r h.
constexpr size_t kLstmGates[] = {0, 2, 3, 1};
constexpr size_t kGruGates[] = {1, 0, 2};

struct CellParts {
  size_t units = 0, channels = 0;
  std::span<const size_t> gates;
  const OnnxTensor* input_weight = nullptr;      // [1][gates * units][channels]
  const OnnxTensor* recurrent_weight = nullptr;  // [1][gates * units][units]
  const OnnxTensor* bias = nullptr;              // [1][2 * gates * units], or none
};

Status check_zero(const ImportState& state, const OnnxNode& node, size_t input, const char* what) {
  if (node.input(input).empty()) return {};
  const OnnxTensor* constant = state.constant(node.input(input));
  if (!constant || std::ranges::any_of(constant->reals, [](float value) { return value != 0.0f; }))
    return fail(Code::kUnsupported, "its %s is not left out or zero", what);
  return {};
}

Status check_options(const ImportState& state, const OnnxNode& node, bool lstm) {
  if (node.text("direction", "forward") != "forward")
    return fail(Code::kUnsupported, "direction %s; cells run forward here",
                node.text("direction", "").c_str());
  if (node.attributes.contains("activations") || node.attributes.contains("clip") ||
      node.whole("input_forget", 0) != 0)
    return fail(Code::kUnsupported, "activations, clip and input_forget are not taken");
  if (!node.input(4).empty()) return fail(Code::kUnsupported, "rows of different lengths");
  PACELINE_TRY(check_zero(state, node, 5, "initial state"));
  if (lstm) PACELINE_TRY(check_zero(state, node, 6, "initial cell"));
  if (lstm) PACELINE_TRY(check_zero(state, node, 7, "peephole"));
  return {};
}

// With the row as [channels][steps].
Result<CellParts> parts_of(const ImportState& state, const OnnxNode& node, bool lstm) {
  CellParts parts;
  parts.gates = lstm ? std::span<const size_t>(kLstmGates) : std::span<const size_t>(kGruGates);
  PACELINE_ASSIGN(parts.input_weight, state.reals(node.input(1), "W"));
  PACELINE_ASSIGN(parts.recurrent_weight, state.reals(node.input(2), "R"));
  if (!node.input(3).empty()) {
    PACELINE_ASSIGN(parts.bias, state.reals(node.input(3), "B"));
  }
  const std::vector<int64_t>& dims = parts.recurrent_weight->dims;
  if (dims.size() != 3 || dims[0] != 1 || dims[2] < 1)
    return fail(Code::kUnsupported, "its R is not [1, gates * units, units]");
  parts.units = static_cast<size_t>(dims[2]);
  parts.channels = state.row[0];
  const size_t rows = parts.gates.size() * parts.units;
  if (parts.recurrent_weight->reals.size() != rows * parts.units ||
      parts.input_weight->reals.size() != rows * parts.channels ||
      (parts.bias && parts.bias->reals.size() != 2 * rows))
    return fail(Code::kUnsupported, "its W, R and B do not fit %zu units of %zu channels",
                parts.units, parts.channels);
  return parts;
}

std::vector<float> cell_weight(const CellParts& parts) {
  std::vector<float> weight;
  for (const size_t gate : parts.gates)
    for (size_t unit = 0; unit < parts.units; ++unit) {
      const size_t row = gate * parts.units + unit;
      const auto part = [&](const OnnxTensor& tensor, size_t width) {
        const auto begin = tensor.reals.begin() + static_cast<std::ptrdiff_t>(row * width);
        weight.insert(weight.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
      };
      part(*parts.input_weight, parts.channels);
      part(*parts.recurrent_weight, parts.units);
    }
  return weight;
}

// ONNX has one bias of the input and one of the state for each gate; they are kept apart only for
// the last gate of a GRU. A forget gate's is stored as its distance from 1.
std::vector<float> cell_bias(const CellParts& parts, bool lstm) {
  std::vector<float> bias(4 * parts.units, 0.0f);
  const size_t rows = parts.gates.size() * parts.units;
  for (size_t gate = 0; gate < parts.gates.size(); ++gate)
    for (size_t unit = 0; unit < parts.units; ++unit) {
      float& value = bias[gate * parts.units + unit];
      if (parts.bias) {
        const size_t place = parts.gates[gate] * parts.units + unit;
        const float of_state = parts.bias->reals[rows + place];
        const bool apart = !lstm && gate == 2;
        value = parts.bias->reals[place] + (apart ? 0.0f : of_state);
        if (apart) bias[3 * parts.units + unit] = of_state;
      }
      if (lstm && gate == 1) value -= 1.0f;
    }
  return bias;
}

// The reset gate in front of the recurrent product gives the same where there is nothing to reset.
Status check_reset(const ImportState& state, const OnnxNode& node, std::span<const float> bias) {
  const size_t units = bias.size() / 4;
  const bool nothing =
      state.row[1] == 1 &&
      std::ranges::all_of(bias.subspan(3 * units), [](float value) { return value == 0.0f; });
  if (node.whole("linear_before_reset", 0) != 0 || nothing) return {};
  return fail(Code::kUnsupported,
              "linear_before_reset = 0: its reset gate acts before the recurrent product, here "
              "behind it, as in PyTorch and in Keras' reset_after");
}

Status cell(ImportState& state, const OnnxNode& node) {
  const bool lstm = node.op == "LSTM", batch_first = node.whole("layout", 0) != 0;
  PACELINE_TRY(check_options(state, node, lstm));
  if (state.axes.size() != 3 || state.row.size() != 2 ||
      state.axes[batch_first ? 0 : 1] != ImportState::kBatch)
    return fail(Code::kUnsupported, "its input is not [steps, batch, channels]");
  // As the layer takes it: channels first.
  if (state.axes[2] == 1) {
    PACELINE_TRY(state.net.add(layer_of("transpose")));
    std::swap(state.row[0], state.row[1]);
  }
  PACELINE_ASSIGN(const CellParts parts, parts_of(state, node, lstm));
  std::vector<float> bias = cell_bias(parts, lstm);
  if (!lstm) PACELINE_TRY(check_reset(state, node, bias));
  const auto used = [&](size_t output) {
    if (output >= node.outputs.size() || node.outputs[output].empty()) return false;
    const std::string& name = node.outputs[output];
    return std::ranges::any_of(
               state.model.nodes,
               [&](const OnnxNode& other) { return std::ranges::count(other.inputs, name) > 0; }) ||
           std::ranges::any_of(state.model.outputs,
                               [&](const OnnxValue& value) { return value.name == name; });
  };
  const bool last = used(1);
  if ((used(0) && last) || used(2))
    return fail(Code::kUnsupported, "more than one of its outputs is taken");
  LayerSpec layer = layer_of(lstm ? "lstm" : "gru");
  layer.units = static_cast<uint32_t>(parts.units);
  layer.sequence = last ? 0 : 1;
  const uint32_t steps = state.row[1], units = layer.units;
  PACELINE_TRY(state.net.add(std::move(layer), cell_weight(parts), std::move(bias)));
  using S = ImportState;
  state.row = last ? std::vector<uint32_t>{units} : std::vector<uint32_t>{units, steps};
  if (last)
    state.axes = batch_first ? std::vector<int>{S::kBatch, S::kOne, 0}
                             : std::vector<int>{S::kOne, S::kBatch, 0};
  else
    state.axes = batch_first ? std::vector<int>{S::kBatch, 1, S::kOne, 0}
                             : std::vector<int>{1, S::kOne, S::kBatch, 0};
  state.current = node.outputs[last ? 1 : 0];
  return {};
}

// The last step of what a cell has just given.
Status last_state(ImportState& state, const OnnxNode& node) {
  const OnnxTensor* which = state.constant(node.input(1));
  PACELINE_ASSIGN(const int axis, state.row_axis(node.whole("axis", 0)));
  std::vector<NetBuilder::Layer>& layers = state.net.layers();
  if (!which || which->is_real || which->wholes.size() != 1 || axis != 1 || !state.net.at_end() ||
      layers.back().spec.sequence != 1 ||
      (which->wholes[0] != -1 && which->wholes[0] != static_cast<int64_t>(state.row[1]) - 1))
    return fail(Code::kUnsupported, "it picks from rows; only the last state of a cell is taken");
  NetBuilder::Layer layer = layers.back();
  state.net.drop_last();
  layer.spec.sequence = 0;
  PACELINE_TRY(
      state.net.add(std::move(layer.spec), std::move(layer.weight), std::move(layer.bias)));
  std::vector<int> axes;
  for (const int kept : state.axes)
    if (kept != 1) axes.push_back(kept);
  if (!which->dims.empty()) axes.push_back(ImportState::kOne);
  state.row.pop_back();
  state.axes = std::move(axes);
  return {};
}

Status gather(ImportState& state, const OnnxNode& node) {
  const OnnxTensor* table = state.constant(node.input(0));
  if (!table) return last_state(state, node);
  if (!table->is_real || table->dims.size() != 2 || node.whole("axis", 0) != 0 ||
      table->reals.empty() || table->dims[0] > INT32_MAX || table->dims[1] > INT32_MAX)
    return fail(Code::kUnsupported, "its table is no matrix of real numbers");
  if (state.row.size() != 1) return fail(Code::kUnsupported, "its places are no flat rows");
  PACELINE_TRY(state.flat());
  LayerSpec layer = layer_of("embedding");
  layer.entries = static_cast<uint32_t>(table->dims[0]);
  layer.units = static_cast<uint32_t>(table->dims[1]);
  const uint32_t length = state.row[0], units = layer.units;
  PACELINE_TRY(state.net.add(std::move(layer), table->reals, std::vector<float>(units)));
  state.row = {units, length};
  state.axes = {ImportState::kBatch, 1, 0};
  return {};
}

constexpr NamedRule kRules[] = {{"LSTM", cell}, {"GRU", cell}, {"Gather", gather}};

}  // namespace

std::span<const NamedRule> cell_rules() { return kRules; }

}  // namespace paceline
