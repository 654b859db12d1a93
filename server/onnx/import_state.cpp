#include "server/onnx/import_state.h"

#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/train/layer.h"

namespace paceline {
namespace {

constexpr int64_t kDimensionMax = 16 * 1024 * 1024;

}  // namespace

Status ImportState::start(const OnnxValue& input, size_t batch_axis) {
  const size_t rank = input.dims.size();
  if (rank < 2 || rank > 4)
    return fail(Code::kUnsupported,
                "input '%s' has %zu dimensions; the batch and one to three of a row are taken",
                input.name.c_str(), rank);
  std::vector<uint32_t> dims;
  axes.clear();
  uint64_t count = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (i == batch_axis) {
      axes.push_back(kBatch);
      continue;
    }
    const int64_t dimension = input.dims[i];
    if (dimension < 1 || dimension > kDimensionMax)
      return fail(Code::kUnsupported,
                  "dimension %zu of input '%s' is open; export the model with all but the batch "
                  "fixed",
                  i, input.name.c_str());
    axes.push_back(static_cast<int>(dims.size()));
    dims.push_back(static_cast<uint32_t>(dimension));
    count *= static_cast<uint64_t>(dimension);
    if (count > static_cast<uint64_t>(kDimensionMax))
      return fail(Code::kUnsupported, "input '%s' has too many values", input.name.c_str());
  }
  row = dims;
  if (dims.size() == 2) dims.insert(dims.begin() + 1, 1);
  net.start(std::move(dims));
  current = input.name;
  keep();
  return {};
}

void ImportState::look_through() {
  for (const OnnxValue& output : model.outputs) takers_[output.name] = 1;
  for (size_t i = model.nodes.size(); i-- > 0;) {
    const OnnxNode& node = model.nodes[i];
    if (!leads_to_output(node)) continue;
    // Whoever asks for a shape alone does not mind what is in it.
    for (const std::string& input : node.inputs) takers_[input] += node.op == "Shape" ? 0 : 1;
  }
}

bool ImportState::leads_to_output(const OnnxNode& node) const {
  return std::ranges::any_of(node.outputs,
                             [&](const std::string& output) { return takers_.contains(output); });
}

bool ImportState::select(std::string_view name) {
  const auto found = views_.find(name);
  if (found == views_.end()) return false;
  current = found->first;
  row = found->second.row;
  axes = found->second.axes;
  net.go_to(found->second.value);
  return true;
}

void ImportState::keep() {
  views_[current] = {net.at(), row, axes};
  const auto takers = takers_.find(current);
  if (takers != takers_.end() && takers->second > 1) net.share();
}

const OnnxTensor* ImportState::constant(std::string_view name) const {
  const auto found = name.empty() ? constants.end() : constants.find(name);
  return found == constants.end() ? nullptr : &found->second;
}

Result<const OnnxTensor*> ImportState::reals(std::string_view name, const char* what) const {
  const OnnxTensor* tensor = constant(name);
  if (!tensor || !tensor->is_real || tensor->reals.empty())
    return fail(Code::kUnsupported, "its %s is no constant of real numbers", what);
  return tensor;
}

Result<std::vector<int64_t>> ImportState::wholes(const OnnxNode& node, size_t input,
                                                 std::string_view key) const {
  if (node.input(input).empty()) return node.wholes(key);
  const OnnxTensor* tensor = constant(node.input(input));
  if (!tensor || tensor->is_real)
    return fail(Code::kUnsupported, "its %s are computed while it runs", std::string(key).c_str());
  return tensor->wholes;
}

Status ImportState::natural() {
  std::vector<int> order;
  for (const int axis : axes)
    if (axis != kOne) order.push_back(axis);
  const bool in_order = !order.empty() && order[0] == kBatch && std::ranges::is_sorted(order);
  if (!in_order) {
    if (order != std::vector<int>{kBatch, 1, 0})
      return fail(Code::kUnsupported, "it needs its input's axes in another order");
    PACELINE_TRY(net.add(layer_of("transpose")));
    std::swap(row[0], row[1]);
  }
  set_row(row);
  return {};
}

Status ImportState::exact() {
  if (std::ranges::count(axes, kOne) > 0)
    return fail(Code::kUnsupported, "its input has axes of length 1; put a Flatten before it");
  return natural();
}

Status ImportState::flat() {
  PACELINE_TRY(natural());
  if (net.shape().size() != 1) PACELINE_TRY(net.add(layer_of("flatten")));
  set_row({net.shape()[0]});
  return {};
}

Result<int> ImportState::row_axis(int64_t axis) const {
  const auto rank = static_cast<int64_t>(axes.size());
  const int64_t place = axis < 0 ? axis + rank : axis;
  if (place < 0 || place >= rank)
    return fail(Code::kUnsupported, "axis %lld of %zu", static_cast<long long>(axis), axes.size());
  return axes[static_cast<size_t>(place)];
}

void ImportState::set_row(std::vector<uint32_t> dims) {
  row = std::move(dims);
  axes = {kBatch};
  for (size_t i = 0; i < row.size(); ++i) axes.push_back(static_cast<int>(i));
}

uint64_t ImportState::row_count() const { return feature_count(row); }

std::vector<int64_t> ImportState::dims() const {
  std::vector<int64_t> dims;
  for (const int axis : axes)
    dims.push_back(axis == kBatch ? 0 : axis == kOne ? 1 : row[static_cast<size_t>(axis)]);
  return dims;
}

}  // namespace paceline
