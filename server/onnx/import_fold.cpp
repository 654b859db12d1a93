// What a graph computes from constants and shapes alone: exporters leave such nodes around Reshape
// and in front of LSTM.
#include <algorithm>

#include "runtime/base/limits.h"
#include "server/onnx/import_state.h"

namespace paceline {
namespace {

using Folded = Result<OnnxTensor>;
using Fold = Folded (*)(ImportState& state, const OnnxNode& node);

const OnnxTensor& first(const ImportState& state, const OnnxNode& node) {
  return *state.constant(node.input(0));
}

Folded fold_constant(ImportState&, const OnnxNode& node) {
  const auto found = node.attributes.find("value");
  if (found == node.attributes.end() || found->second.kind != OnnxAttribute::Kind::kTensor)
    return fail(Code::kUnsupported, "a constant that is no tensor");
  return found->second.tensor;
}

Folded fold_same(ImportState& state, const OnnxNode& node) { return first(state, node); }

Folded fold_filled(ImportState&, const OnnxNode& node) {
  const auto found = node.attributes.find("value");
  if (found == node.attributes.end()) return real_tensor("", {1}, {0.0f});
  return found->second.tensor;
}

// Numbers picked from a list.
Folded fold_gather(ImportState& state, const OnnxNode& node) {
  const OnnxTensor& data = first(state, node);
  const OnnxTensor& places = *state.constant(node.input(1));
  if (data.is_real || places.is_real || data.dims.size() != 1 || node.whole("axis", 0) != 0)
    return fail(Code::kUnsupported, "of constants it picks whole numbers from a list only");
  OnnxTensor picked = places;
  for (int64_t& place : picked.wholes) {
    const auto count = static_cast<int64_t>(data.wholes.size());
    const int64_t from = place < 0 ? place + count : place;
    if (from < 0 || from >= count)
      return fail(Code::kCorrupt, "it picks number %lld of %lld", static_cast<long long>(place),
                  static_cast<long long>(count));
    place = data.wholes[static_cast<size_t>(from)];
  }
  return picked;
}

// Only lists and single numbers are looked at, whose values lie alike in any of these shapes.
Folded fold_list(ImportState& state, const OnnxNode& node) {
  OnnxTensor list = first(state, node);
  if (list.is_real || list.dims.size() > 1)
    return fail(Code::kUnsupported, "of constants it takes lists of whole numbers only");
  list.dims = {static_cast<int64_t>(list.wholes.size())};
  return list;
}

Folded fold_concat(ImportState& state, const OnnxNode& node) {
  std::vector<int64_t> all;
  for (const std::string& input : node.inputs) {
    const OnnxTensor& part = *state.constant(input);
    if (part.is_real || part.dims.size() > 1 || all.size() + part.wholes.size() > kNameBytesMax)
      return fail(Code::kUnsupported, "of constants it joins short lists of whole numbers only");
    all.insert(all.end(), part.wholes.begin(), part.wholes.end());
  }
  return whole_tensor("", std::move(all));
}

Folded fold_transpose(ImportState& state, const OnnxNode& node) {
  const OnnxTensor& from = first(state, node);
  const std::vector<int64_t> order = node.wholes("perm");
  if (!from.is_real || from.dims.size() != 2 ||
      !(order.empty() || order == std::vector<int64_t>{1, 0}))
    return fail(Code::kUnsupported, "of constants it transposes matrices only");
  OnnxTensor to = from;
  std::swap(to.dims[0], to.dims[1]);
  const auto rows = static_cast<size_t>(from.dims[0]), columns = static_cast<size_t>(from.dims[1]);
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      to.reals[column * rows + row] = from.reals[row * columns + column];
  return to;
}

struct NamedFold {
  std::string_view op;
  Fold fold;
};
constexpr NamedFold kFolds[] = {{"Constant", fold_constant}, {"ConstantOfShape", fold_filled},
                                {"Identity", fold_same},     {"Cast", fold_same},
                                {"Expand", fold_same},       {"Gather", fold_gather},
                                {"Unsqueeze", fold_list},    {"Squeeze", fold_list},
                                {"Concat", fold_concat},     {"Transpose", fold_transpose}};

}  // namespace

Result<bool> fold_constants(ImportState& state, const OnnxNode& node) {
  if (node.outputs.empty()) return false;
  if (node.op == "Shape" && node.input(0) == state.current) {
    OnnxTensor shape = whole_tensor(node.outputs[0], state.dims());
    state.constants[node.outputs[0]] = std::move(shape);
    return true;
  }
  const bool constant =
      std::ranges::all_of(node.inputs,
                          [&](const std::string& input) {
                            return input.empty() || state.constant(input) != nullptr;
                          }) &&
      (node.op == "Constant" || (!node.inputs.empty() && !node.inputs[0].empty()));
  if (!constant) return false;
  for (const NamedFold& fold : kFolds) {
    if (fold.op != node.op) continue;
    if (fold.fold == fold_gather && node.input(1).empty()) return false;
    PACELINE_ASSIGN(OnnxTensor tensor, fold.fold(state, node));
    state.constants[node.outputs[0]] = std::move(tensor);
    return true;
  }
  return false;
}

}  // namespace paceline
