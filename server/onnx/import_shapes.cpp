// Rules for what renames axes, for dense layers, scalings and activations.
#include <algorithm>
#include <cmath>

#include "runtime/train/layer.h"
#include "server/onnx/import_state.h"

namespace paceline {
namespace {

Status keep(ImportState&, const OnnxNode&) { return {}; }

template <const char* type>
Status activate(ImportState& state, const OnnxNode&) {
  return state.net.add(layer_of(type));
}
constexpr char kRelu[] = "relu", kSigmoid[] = "sigmoid", kTanh[] = "tanh";

Status leaky_relu(ImportState& state, const OnnxNode& node) {
  LayerSpec layer = layer_of("leaky_relu");
  layer.slope = node.real("alpha", 0.01f);
  return state.net.add(std::move(layer));
}

Status gelu(ImportState& state, const OnnxNode& node) {
  if (node.text("approximate", "none") != "none")
    return fail(Code::kUnsupported,
                "its approximation by tanh is another function than gelu's own");
  return state.net.add(layer_of("gelu"));
}

Status dropout(ImportState& state, const OnnxNode& node) {
  LayerSpec layer = layer_of("dropout");
  layer.rate = node.real("ratio", 0.5f);
  if (!node.input(1).empty()) {
    PACELINE_ASSIGN(const OnnxTensor* ratio, state.reals(node.input(1), "ratio"));
    layer.rate = ratio->reals[0];
  }
  return layer.rate == 0.0f ? Status() : state.net.add(std::move(layer));
}

// Only what learns from probabilities follows, which has them in its loss.
Status softmax(ImportState& state, const OnnxNode& node) {
  PACELINE_TRY(state.exact());
  if (state.row.size() != 1)
    return fail(Code::kUnsupported, "softmax over %s; it is taken at the end, of flat rows",
                shape_text(state.row).c_str());
  PACELINE_ASSIGN(const int axis,
                  state.row_axis(node.whole("axis", state.model.opset < 13 ? 1 : -1)));
  if (axis != 0) return fail(Code::kUnsupported, "softmax over the batch");
  PACELINE_TRY(state.flat());
  state.classes = state.ended = true;
  return {};
}

Status flatten(ImportState& state, const OnnxNode& node) {
  const int64_t axis = node.whole("axis", 1);
  if (axis != 1 && axis != 1 - static_cast<int64_t>(state.axes.size()))
    return fail(Code::kUnsupported, "axis %lld would mix rows", static_cast<long long>(axis));
  return state.flat();
}

// The dimensions of a row that a Reshape asks for.
Result<std::vector<uint32_t>> wanted_row(const ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const std::vector<int64_t> target, state.wholes(node, 1, "shape"));
  const std::vector<int64_t> dims = state.dims();
  const uint64_t count = state.row_count();
  if (target.size() < 2) return fail(Code::kUnsupported, "it leaves no batch and row");
  std::vector<uint32_t> row;
  uint64_t known = 1;
  size_t open = 0;
  for (size_t i = 1; i < target.size(); ++i) {
    int64_t dimension = target[i];
    if (dimension == 0 && node.whole("allowzero", 0) == 0 && i < dims.size()) dimension = dims[i];
    if (dimension == -1 && open == 0) {
      open = i;
      dimension = 1;
    }
    if (dimension < 1 || static_cast<uint64_t>(dimension) > count)
      return fail(Code::kUnsupported, "it makes no rows of %llu values",
                  static_cast<unsigned long long>(count));
    row.push_back(static_cast<uint32_t>(dimension));
    known *= static_cast<uint64_t>(dimension);
    if (known > count) break;
  }
  if (open > 0 && row.size() >= open && known <= count)
    row[open - 1] = static_cast<uint32_t>(count / known);
  if (row.size() + 1 != target.size() || feature_count(row) != count)
    return fail(Code::kUnsupported, "it mixes rows: %llu values of one do not fill its shape",
                static_cast<unsigned long long>(count));
  return row;
}

// Reshape, InstanceNormalization and a Reshape back are how exporters write a group_norm.
Result<bool> end_group_norm(ImportState& state, std::span<const uint32_t> row) {
  const std::vector<NetBuilder::Layer>& layers = state.net.layers();
  if (layers.size() < 2 || row.size() < 2 || !state.net.at_end()) return false;
  const NetBuilder::Layer& norm = layers.back();
  const NetBuilder::Layer& reshape = layers[layers.size() - 2];
  std::vector<uint32_t> before(row.begin(), row.end());
  if (before.size() == 2) before.insert(before.begin() + 1, 1);
  const auto zero = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return value == 0.0f; });
  };
  if (norm.spec.type != "group_norm" || reshape.spec.type != "reshape" || reshape.shared ||
      norm.spec.inputs[0] + 1 != state.net.at() || reshape.spec.input_shape != before ||
      row[0] % norm.spec.groups != 0 || !zero(norm.weight) || !zero(norm.bias))
    return false;
  LayerSpec whole = layer_of("group_norm");
  whole.groups = norm.spec.groups;
  whole.epsilon = norm.spec.epsilon;
  state.net.drop_last();
  state.net.drop_last();
  const std::vector<float> zeros(row[0]);
  PACELINE_TRY(state.net.add(std::move(whole), zeros, zeros));
  return true;
}

Status reshape(ImportState& state, const OnnxNode& node) {
  PACELINE_TRY(state.natural());
  PACELINE_ASSIGN(const std::vector<uint32_t> row, wanted_row(state, node));
  if (row.size() == 1) return state.flat();
  if (row.size() > 3)
    return fail(Code::kUnsupported, "rows of %zu dimensions; at most three are taken", row.size());
  PACELINE_ASSIGN(const bool norm, end_group_norm(state, row));
  if (row != state.row && !norm) {
    LayerSpec layer = layer_of("reshape");
    layer.channels = row[0];
    layer.height = row.size() == 3 ? row[1] : 1;
    layer.width = row.back();
    PACELINE_TRY(state.net.add(std::move(layer)));
  }
  state.set_row(row);
  return {};
}

Status transpose(ImportState& state, const OnnxNode& node) {
  std::vector<int64_t> order = node.wholes("perm");
  if (order.empty())
    for (size_t i = state.axes.size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
  if (order.size() != state.axes.size())
    return fail(Code::kCorrupt, "it orders %zu axes of %zu", order.size(), state.axes.size());
  std::vector<int> axes;
  for (const int64_t from : order) {
    PACELINE_ASSIGN(const int axis, state.row_axis(from));
    axes.push_back(axis);
  }
  state.axes = std::move(axes);
  return {};
}

Status squeeze(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(std::vector<int64_t> which, state.wholes(node, 1, "axes"));
  std::vector<bool> gone(state.axes.size(), which.empty());
  for (const int64_t axis : which) {
    PACELINE_ASSIGN(const int kind, state.row_axis(axis));
    if (kind != ImportState::kOne)
      return fail(Code::kUnsupported, "axis %lld is not known to be of length 1",
                  static_cast<long long>(axis));
    gone[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(gone.size()) : axis)] = true;
  }
  std::vector<int> kept;
  for (size_t i = 0; i < gone.size(); ++i)
    if (!gone[i] || state.axes[i] != ImportState::kOne) kept.push_back(state.axes[i]);
  state.axes = std::move(kept);
  return {};
}

Status unsqueeze(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(std::vector<int64_t> which, state.wholes(node, 1, "axes"));
  const auto rank = static_cast<int64_t>(state.axes.size() + which.size());
  for (int64_t& axis : which)
    if (axis < 0) axis += rank;
  std::ranges::sort(which);
  for (const int64_t axis : which) {
    if (axis < 0 || axis > static_cast<int64_t>(state.axes.size()) || rank > 8)
      return fail(Code::kUnsupported, "axis %lld of %lld", static_cast<long long>(axis),
                  static_cast<long long>(rank));
    state.axes.insert(state.axes.begin() + static_cast<std::ptrdiff_t>(axis), ImportState::kOne);
  }
  return {};
}

// A dense layer of `units`, from a matrix [features][units] or, transposed, [units][features].
Status dense(ImportState& state, const OnnxTensor& matrix, bool transposed, float alpha,
             std::vector<float> bias) {
  PACELINE_TRY(state.flat());
  if (matrix.dims.size() != 2)
    return fail(Code::kUnsupported, "its matrix has %zu dimensions", matrix.dims.size());
  const auto units = static_cast<size_t>(matrix.dims[transposed ? 0 : 1]);
  const size_t features = state.row[0];
  if (static_cast<uint64_t>(matrix.dims[transposed ? 1 : 0]) != features)
    return fail(Code::kUnsupported, "a matrix for %lld values, rows have %zu",
                static_cast<long long>(matrix.dims[transposed ? 1 : 0]), features);
  std::vector<float> weight(matrix.reals.size());
  for (size_t unit = 0; unit < units; ++unit)
    for (size_t i = 0; i < features; ++i)
      weight[unit * features + i] =
          alpha * matrix.reals[transposed ? unit * features + i : i * units + unit];
  if (bias.empty()) bias.assign(units, 0.0f);
  if (bias.size() == 1) bias.assign(units, bias[0]);
  LayerSpec layer = layer_of("dense");
  layer.units = static_cast<uint32_t>(units);
  PACELINE_TRY(state.net.add(std::move(layer), std::move(weight), std::move(bias)));
  state.set_row({static_cast<uint32_t>(units)});
  return {};
}

Status gemm(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const OnnxTensor* matrix, state.reals(node.input(1), "matrix"));
  if (node.whole("transA", 0) != 0)
    return fail(Code::kUnsupported, "transA: it takes its rows as columns");
  std::vector<float> bias;
  if (!node.input(2).empty()) {
    PACELINE_ASSIGN(const OnnxTensor* constant, state.reals(node.input(2), "bias"));
    const uint64_t units =
        matrix->dims.size() == 2
            ? static_cast<uint64_t>(matrix->dims[node.whole("transB", 0) ? 0 : 1])
            : 0;
    if (constant->reals.size() != 1 && (constant->reals.size() != units || constant->dims.empty() ||
                                        static_cast<uint64_t>(constant->dims.back()) != units))
      return fail(Code::kUnsupported, "its bias is not one value a unit");
    for (const float value : constant->reals) bias.push_back(node.real("beta", 1.0f) * value);
  }
  return dense(state, *matrix, node.whole("transB", 0) != 0, node.real("alpha", 1.0f),
               std::move(bias));
}

Status matmul(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const OnnxTensor* matrix, state.reals(node.input(1), "matrix"));
  if (state.row.size() != 1)
    return fail(Code::kUnsupported, "rows of %zu dimensions; it is taken of flat ones",
                state.row.size());
  return dense(state, *matrix, false, 1.0f, {});
}

// Factors or summands of a constant: one, or one a channel.
Result<std::vector<float>> channel_values(ImportState& state, const OnnxTensor& constant) {
  if (constant.reals.size() == 1) return constant.reals;
  PACELINE_TRY(state.exact());
  const size_t rank = state.row.size();
  size_t above = 1;  // values in front of the channels
  const size_t dims = constant.dims.size();
  for (size_t i = 0; i < dims; ++i) {
    const size_t from_end = dims - 1 - i;
    if (from_end >= rank) above *= static_cast<size_t>(constant.dims[i]);
    if (from_end < rank && from_end + 1 != rank && constant.dims[i] != 1) above = 0;
  }
  if (above != 1 || constant.reals.size() != state.row[0])
    return fail(Code::kUnsupported, "its constant is neither one value nor one a channel");
  return constant.reals;
}

// What [data] does to rows: the whole graph's inputs times `values`, or plus them.
void scale_rows(ImportState& state, const std::vector<float>& values, bool factor) {
  const size_t count = std::max({values.size(), state.scale.size(), state.offset.size()});
  for (std::vector<float>* numbers : {&state.scale, &state.offset})
    if (numbers->size() < count) numbers->assign(count, numbers->front());
  for (size_t i = 0; i < count; ++i) {
    const float value = values.size() == 1 ? values[0] : values[i];
    state.scale[i] *= factor ? value : 1.0f;
    state.offset[i] = factor ? state.offset[i] * value : state.offset[i] + value;
  }
}

enum class Scaling { kTimes, kBy, kPlus, kMinus };

template <Scaling kind>
Status scaling(ImportState& state, const OnnxNode& node) {
  const bool swapped = node.input(0) != state.current;
  const OnnxTensor* constant = state.constant(node.input(swapped ? 0 : 1));
  if (!constant || !constant->is_real || constant->reals.empty())
    return fail(Code::kUnsupported, "its other input is no constant of real numbers");
  if (swapped && kind == Scaling::kBy)
    return fail(Code::kUnsupported, "it divides a constant by its input");
  PACELINE_ASSIGN(std::vector<float> values, channel_values(state, *constant));
  const bool factor = kind == Scaling::kTimes || kind == Scaling::kBy;
  for (float& value : values) {
    if (kind == Scaling::kBy) value = 1.0f / value;
    if (kind == Scaling::kMinus && !swapped) value = -value;
    if (!std::isfinite(value)) return fail(Code::kUnsupported, "it divides by zero");
  }
  const float one[] = {1.0f}, minus[] = {-1.0f}, zero[] = {0.0f};
  const std::span<const float> factors = kind == Scaling::kMinus && swapped ? minus : one;
  const bool of_rows = values.size() == 1 || values.size() == state.columns.size();
  if (state.net.at() == 0 && !state.net.shared() && of_rows && !swapped) {
    scale_rows(state, values, factor);
    return {};
  }
  PACELINE_TRY(state.natural());
  return factor ? state.net.add_scaling(values, zero) : state.net.add_scaling(factors, values);
}

Status sum(ImportState&, const OnnxNode& node) {
  if (node.inputs.size() == 1) return {};
  return fail(Code::kUnsupported, "it adds constants; Add takes one");
}

constexpr NamedRule kRules[] = {{"Identity", keep},
                                {"Sum", sum},
                                {"Relu", activate<kRelu>},
                                {"Sigmoid", activate<kSigmoid>},
                                {"Tanh", activate<kTanh>},
                                {"LeakyRelu", leaky_relu},
                                {"Gelu", gelu},
                                {"Dropout", dropout},
                                {"Softmax", softmax},
                                {"LogSoftmax", softmax},
                                {"Flatten", flatten},
                                {"Reshape", reshape},
                                {"Transpose", transpose},
                                {"Squeeze", squeeze},
                                {"Unsqueeze", unsqueeze},
                                {"Gemm", gemm},
                                {"MatMul", matmul},
                                {"Mul", scaling<Scaling::kTimes>},
                                {"Div", scaling<Scaling::kBy>},
                                {"Add", scaling<Scaling::kPlus>},
                                {"Sub", scaling<Scaling::kMinus>}};

}  // namespace

std::span<const NamedRule> shape_rules() { return kRules; }

}  // namespace paceline
