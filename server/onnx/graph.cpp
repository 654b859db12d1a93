#include "server/onnx/graph.h"

namespace paceline {
namespace {

const OnnxAttribute* find(const OnnxNode& node, std::string_view key, OnnxAttribute::Kind kind) {
  const auto found = node.attributes.find(key);
  return found != node.attributes.end() && found->second.kind == kind ? &found->second : nullptr;
}

}  // namespace

OnnxTensor real_tensor(std::string name, std::vector<int64_t> dims, std::vector<float> values) {
  OnnxTensor tensor;
  tensor.name = std::move(name);
  tensor.dims = std::move(dims);
  tensor.reals = std::move(values);
  return tensor;
}

OnnxTensor whole_tensor(std::string name, std::vector<int64_t> values) {
  OnnxTensor tensor;
  tensor.name = std::move(name);
  tensor.dims = {static_cast<int64_t>(values.size())};
  tensor.is_real = false;
  tensor.wholes = std::move(values);
  return tensor;
}

int64_t OnnxNode::whole(std::string_view key, int64_t otherwise) const {
  const OnnxAttribute* found = find(*this, key, OnnxAttribute::Kind::kWhole);
  return found ? found->whole : otherwise;
}

float OnnxNode::real(std::string_view key, float otherwise) const {
  const OnnxAttribute* found = find(*this, key, OnnxAttribute::Kind::kReal);
  return found ? found->real : otherwise;
}

std::string OnnxNode::text(std::string_view key, std::string_view otherwise) const {
  const OnnxAttribute* found = find(*this, key, OnnxAttribute::Kind::kText);
  return found ? found->text : std::string(otherwise);
}

std::vector<int64_t> OnnxNode::wholes(std::string_view key) const {
  const OnnxAttribute* found = find(*this, key, OnnxAttribute::Kind::kWholes);
  return found ? found->wholes : std::vector<int64_t>();
}

OnnxAttribute whole_attribute(int64_t value) {
  OnnxAttribute attribute;
  attribute.kind = OnnxAttribute::Kind::kWhole;
  attribute.whole = value;
  return attribute;
}

OnnxAttribute real_attribute(float value) {
  OnnxAttribute attribute;
  attribute.kind = OnnxAttribute::Kind::kReal;
  attribute.real = value;
  return attribute;
}

OnnxAttribute wholes_attribute(std::vector<int64_t> values) {
  OnnxAttribute attribute;
  attribute.kind = OnnxAttribute::Kind::kWholes;
  attribute.wholes = std::move(values);
  return attribute;
}

}  // namespace paceline
