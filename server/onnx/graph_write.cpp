#include "runtime/base/version.h"
#include "server/onnx/graph.h"
#include "server/onnx/protobuf.h"

namespace paceline {
namespace {

constexpr int64_t kIrVersion = 8;

ProtoWriter tensor_message(const OnnxTensor& tensor) {
  ProtoWriter message;
  message.put(1, std::span<const int64_t>(tensor.dims));
  message.put(2, static_cast<int64_t>(tensor.is_real ? OnnxType::kFloat : OnnxType::kInt64));
  message.put(8, tensor.name);
  message.put(9, tensor.is_real ? std::as_bytes(std::span(tensor.reals))
                                : std::as_bytes(std::span(tensor.wholes)));
  return message;
}

ProtoWriter attribute_message(const std::string& name, const OnnxAttribute& attribute) {
  ProtoWriter message;
  message.put(1, name);
  switch (attribute.kind) {
    case OnnxAttribute::Kind::kReal:
      message.put(2, attribute.real);
      break;
    case OnnxAttribute::Kind::kWhole:
      message.put(3, attribute.whole);
      break;
    case OnnxAttribute::Kind::kText:
      message.put(4, attribute.text);
      break;
    case OnnxAttribute::Kind::kTensor:
      message.put(5, tensor_message(attribute.tensor));
      break;
    case OnnxAttribute::Kind::kReals:
      for (const float value : attribute.reals) message.put(7, value);
      break;
    case OnnxAttribute::Kind::kWholes:
      for (const int64_t value : attribute.wholes) message.put(8, value);
      break;
    case OnnxAttribute::Kind::kOther:
      break;
  }
  message.put(20, static_cast<int64_t>(attribute.kind));
  return message;
}

ProtoWriter node_message(const OnnxNode& node) {
  ProtoWriter message;
  for (const std::string& input : node.inputs) message.put(1, input);
  for (const std::string& output : node.outputs) message.put(2, output);
  message.put(3, node.name);
  message.put(4, node.op);
  for (const auto& [name, attribute] : node.attributes)
    message.put(5, attribute_message(name, attribute));
  if (!node.domain.empty()) message.put(7, node.domain);
  return message;
}

ProtoWriter value_message(const OnnxValue& value) {
  ProtoWriter shape;
  for (const int64_t dimension : value.dims) {
    ProtoWriter message;
    if (dimension > 0)
      message.put(1, dimension);
    else
      message.put(2, "batch");
    shape.put(1, message);
  }
  ProtoWriter tensor, type, message;
  tensor.put(1, static_cast<int64_t>(value.type));
  tensor.put(2, shape);
  type.put(1, tensor);
  message.put(1, value.name);
  message.put(2, type);
  return message;
}

ProtoWriter pair_message(std::string_view first, std::string_view second) {
  ProtoWriter message;
  message.put(1, first);
  message.put(2, second);
  return message;
}

}  // namespace

Bytes write_onnx(const OnnxModel& model) {
  ProtoWriter graph;
  for (const OnnxNode& node : model.nodes) graph.put(1, node_message(node));
  graph.put(2, "paceline");
  for (const auto& [name, tensor] : model.constants) graph.put(5, tensor_message(tensor));
  for (const OnnxValue& value : model.inputs) graph.put(11, value_message(value));
  for (const OnnxValue& value : model.outputs) graph.put(12, value_message(value));

  ProtoWriter opset, file;
  opset.put(1, "");
  opset.put(2, model.opset);
  file.put(1, kIrVersion);
  file.put(2, "paceline");
  file.put(3, kVersionText);
  file.put(7, graph);
  file.put(8, opset);
  for (const auto& [key, value] : model.metadata) file.put(14, pair_message(key, value));
  return file.take();
}

}  // namespace paceline
