// A graph that is written node by node.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/onnx/graph.h"

namespace paceline {

using Dims = std::vector<int64_t>;
using Attributes = std::map<std::string, OnnxAttribute, std::less<>>;

// A value of the graph; its dimensions without the batch.
struct Value {
  std::string name;
  Dims dims;
};

// Nodes of which each takes what the one before it gives, or the value that was gone to.
class Chain {
 public:
  explicit Chain(OnnxModel* model) : model_(model) {}

  void go_to(Value value) {
    value_ = std::move(value.name);
    dims_ = std::move(value.dims);
  }
  Value at() const { return {value_, dims_}; }
  // The layer whose nodes follow; its parameters are called after it.
  void enter(const std::string& layer) {
    layer_ = layer;
    while (!entered_.insert(layer_).second) layer_ += ":";  // no layer's name has one
    parts_ = 0;
  }
  std::string constant(const std::string& what, Dims dims, std::vector<float> values) {
    const std::string name = layer_ + "." + what;
    model_->constants[name] = real_tensor(name, std::move(dims), std::move(values));
    return name;
  }
  std::string constant(const std::string& what, std::vector<int64_t> values) {
    const std::string name = layer_ + "." + what + std::to_string(parts_);
    model_->constants[name] = whole_tensor(name, std::move(values));
    return name;
  }
  // `row` are the dimensions of what it gives, without the batch.
  OnnxNode& add(const std::string& op, std::vector<std::string> constants, Dims row,
                Attributes attributes = {}) {
    OnnxNode node;
    node.name = layer_ + (parts_ == 0 ? "" : "_" + std::to_string(parts_));
    ++parts_;
    node.op = op;
    node.inputs = {value_};
    node.inputs.insert(node.inputs.end(), constants.begin(), constants.end());
    node.outputs = {node.name + ".out"};
    node.attributes = std::move(attributes);
    value_ = node.outputs[0];
    dims_ = std::move(row);
    model_->nodes.push_back(std::move(node));
    return model_->nodes.back();
  }
  void reshape(const Dims& row) {
    if (row == dims_) return;
    Dims shape = {0};  // the batch as it is
    shape.insert(shape.end(), row.begin(), row.end());
    add("Reshape", {constant("shape", shape)}, row);
  }
  void transpose(std::vector<int64_t> order, Dims row) {
    add("Transpose", {}, std::move(row), {{"perm", wholes_attribute(std::move(order))}});
  }
  const Dims& dims() const { return dims_; }
  // Gives the last value this name.
  void end(const std::string& name) {
    model_->nodes.back().outputs[0] = name;
    value_ = name;
  }
  const std::string& value() const { return value_; }

 private:
  OnnxModel* model_;
  std::string value_, layer_;
  std::set<std::string> entered_;
  Dims dims_;
  int parts_ = 0;
};

}  // namespace paceline
