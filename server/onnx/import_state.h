// What an import knows while it walks along a graph: the constants, the layers so far, and how the
// graph sees the value that the next node takes.
//
// Here a row lies [channels][steps] or [channels][height][width], whatever axes the graph has given
// it. A Transpose only renames axes; a layer that moves values is added where somebody needs them
// in another order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/onnx/graph.h"
#include "server/onnx/net_builder.h"

namespace paceline {

class ImportState {
 public:
  // An axis of the graph's value: the batch, one of length 1, or a dimension of the row.
  static constexpr int kBatch = -1;
  static constexpr int kOne = -2;

  explicit ImportState(const OnnxModel& from) : model(from), constants(from.constants) {}

  // Reads the graph: what leads to its output, and what is taken more than once.
  void look_through();
  // Begins with this input. `batch_axis` as whoever takes it first needs it.
  Status start(const OnnxValue& input, size_t batch_axis);

  // Goes on from this value of the graph. False: no node before has given it.
  bool select(std::string_view name);
  // What the graph calls `current` from now on can be selected.
  void keep();
  bool leads_to_output(const OnnxNode& node) const;

  // Null if `name` is no constant; null for "" too.
  const OnnxTensor* constant(std::string_view name) const;
  // A constant of real numbers. Errors: kUnsupported, with `what` it should be.
  Result<const OnnxTensor*> reals(std::string_view name, const char* what) const;
  // The values of a whole-number constant, or of the attribute where the input is not there.
  Result<std::vector<int64_t>> wholes(const OnnxNode& node, size_t input,
                                      std::string_view key) const;

  // The row in its own order, which a layer may be needed for: [batch, row...], ones left out.
  Status natural();
  // The same where axes are counted: there are none of length 1.
  Status exact();
  // The same as one dimension.
  Status flat();
  // Which dimension of the row an axis is; it may count from the end.
  Result<int> row_axis(int64_t axis) const;
  // A row of these dimensions, in its own order, follows.
  void set_row(std::vector<uint32_t> dims);
  uint64_t row_count() const;
  // Dimensions as the graph sees them; 0 for the batch.
  std::vector<int64_t> dims() const;

  const OnnxModel& model;
  std::map<std::string, OnnxTensor, std::less<>> constants;
  NetBuilder net;
  std::string current;        // the value's name
  std::vector<uint32_t> row;  // its dimensions as they lie
  std::vector<int> axes;      // as the graph sees it
  bool classes = false;       // the graph ends in probabilities
  bool ended = false;         // nothing may follow
  // Of the inputs, before the first layer: one for all, or where columns are known one each.
  std::vector<float> scale = {1}, offset = {0};
  std::vector<std::string> columns;  // by the metadata; empty: not known
  std::vector<std::string> notes;
  // Names of nodes that another node's rule has taken in.
  std::map<std::string, bool> taken;

 private:
  // A value as it was when its node had been converted.
  struct View {
    uint32_t value = 0;  // of `net`
    std::vector<uint32_t> row;
    std::vector<int> axes;
  };
  std::map<std::string, View, std::less<>> views_;
  std::map<std::string, size_t, std::less<>> takers_;  // of what leads to the output
};

// How one operator becomes layers. Errors: kUnsupported with the reason.
using ImportRule = Status (*)(ImportState& state, const OnnxNode& node);
struct NamedRule {
  std::string_view op;
  ImportRule rule;
};
std::span<const NamedRule> shape_rules();   // axes, dense layers, activations
std::span<const NamedRule> window_rules();  // convolutions, pools, normalisations
std::span<const NamedRule> cell_rules();    // LSTM, GRU, Gather
// A node that takes several values of the net.
Status join_branches(ImportState& state, const OnnxNode& node);

// Computes a node whose inputs are all constants, or Shape. False: it is no such node.
Result<bool> fold_constants(ImportState& state, const OnnxNode& node);

}  // namespace paceline
