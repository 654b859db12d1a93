// Nodes that take several values: sums of equal ones, and channels one behind the other.
#include <algorithm>

#include "runtime/train/layer.h"
#include "server/onnx/import_state.h"

namespace paceline {
namespace {

using S = ImportState;

// A value in its own order, as it is joined.
struct Branch {
  uint32_t value = 0;
  std::vector<uint32_t> row;
  std::vector<int> axes;  // of the graph's value; where the row's begin is counted anew
};

Result<Branch> branch_of(ImportState& state, const std::string& name) {
  if (!state.select(name)) return fail(Code::kUnsupported, "it joins a constant and branches");
  Branch branch;
  int next = 0;
  for (const int axis : state.axes) branch.axes.push_back(axis < 0 ? axis : next++);
  PACELINE_TRY(state.natural());
  branch.value = state.net.at();
  branch.row = state.row;
  return branch;
}

// Whether the graph joins along what are channels here.
Status check_axis(const OnnxNode& node, const Branch& branch) {
  const auto rank = static_cast<int64_t>(branch.axes.size());
  const int64_t given = node.whole("axis", 0), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank || branch.axes[static_cast<size_t>(axis)] != 0)
    return fail(Code::kUnsupported, "axis %lld: it joins along something else than the channels",
                static_cast<long long>(given));
  return {};
}

}  // namespace

Status join_branches(ImportState& state, const OnnxNode& node) {
  const bool concat = node.op == "Concat";
  if (!concat && node.op != "Add" && node.op != "Sum")
    return fail(Code::kUnsupported, "it joins branches; Add, Sum and Concat of them are taken");
  std::vector<uint32_t> values;
  Branch first;
  for (const std::string& input : node.inputs) {
    PACELINE_ASSIGN(Branch branch, branch_of(state, input));
    if (std::ranges::find(values, branch.value) != values.end())
      return fail(Code::kUnsupported, "it takes '%s' twice", input.c_str());
    values.push_back(branch.value);
    if (values.size() == 1) {
      first = std::move(branch);
      if (concat) PACELINE_TRY(check_axis(node, first));
      continue;
    }
    std::vector<uint32_t> fitting = first.row;
    if (concat && branch.row.size() == fitting.size()) fitting[0] = branch.row[0];
    if (branch.row != fitting || branch.axes != first.axes)
      return fail(Code::kUnsupported, "it joins rows of %s and %s", shape_text(first.row).c_str(),
                  shape_text(branch.row).c_str());
  }
  PACELINE_TRY(state.net.join(concat ? "concat" : "add", std::move(values)));
  state.row = std::move(first.row);
  if (concat) state.row[0] = state.net.shape()[0];
  state.axes = std::move(first.axes);
  state.current = node.outputs[0];
  return {};
}

}  // namespace paceline
