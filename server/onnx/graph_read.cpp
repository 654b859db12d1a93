#include <cmath>

#include "runtime/base/limits.h"
#include "server/onnx/graph.h"
#include "server/onnx/protobuf.h"

namespace paceline {
namespace {

constexpr size_t kNodesMax = 65'536;
constexpr size_t kDimsMax = 8;
constexpr int64_t kExternal = 1;  // TensorProto.DataLocation

std::string quoted(const std::string& name) { return "'" + name.substr(0, kNameBytesMax) + "'"; }

// What a TensorProto may hold its values in.
struct TensorParts {
  OnnxTensor tensor;
  int64_t type = 0;
  bool external = false;
  ByteSpan raw;
  std::vector<int64_t> wholes;
  std::vector<float> floats;
  std::vector<double> doubles;
};

Result<TensorParts> read_parts(ByteSpan bytes) {
  TensorParts parts;
  ProtoReader reader(bytes);
  ProtoField field;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return parts;
    switch (field.number) {
      case 1:
        PACELINE_TRY(read_repeated(field, &parts.tensor.dims));
        break;
      case 2:
        parts.type = field.whole();
        break;
      case 4:
        PACELINE_TRY(read_repeated(field, &parts.floats));
        break;
      case 5:
      case 7:
        PACELINE_TRY(read_repeated(field, &parts.wholes));
        break;
      case 8:
        parts.tensor.name = field.text();
        break;
      case 9:
        parts.raw = field.bytes;
        break;
      case 10:
        PACELINE_TRY(read_repeated(field, &parts.doubles));
        break;
      case 13:
        parts.external = true;
        break;
      case 14:
        parts.external = parts.external || field.whole() == kExternal;
        break;
      default:
        break;
    }
  }
}

// The product of the dimensions. Errors: as for the tensor.
Result<uint64_t> value_count(const OnnxTensor& tensor) {
  if (tensor.dims.size() > kDimsMax)
    return fail(Code::kUnsupported, "%zu dimensions, at most %zu", tensor.dims.size(), kDimsMax);
  uint64_t count = 1;
  for (const int64_t dimension : tensor.dims) {
    if (dimension < 0)
      return fail(Code::kCorrupt, "a dimension of %lld", static_cast<long long>(dimension));
    if (dimension != 0 && count > kModelElementsMax / static_cast<uint64_t>(dimension))
      return fail(Code::kResourceExhausted, "more than %llu values",
                  static_cast<unsigned long long>(kModelElementsMax));
    count *= static_cast<uint64_t>(dimension);
  }
  return count;
}

template <class From, class To>
Status take_values(ByteSpan raw, const std::vector<From>& listed, uint64_t count,
                   std::vector<To>* values) {
  if (!raw.empty() && raw.size() != count * sizeof(From))
    return fail(Code::kCorrupt, "%zu bytes for %llu values of %zu", raw.size(),
                static_cast<unsigned long long>(count), sizeof(From));
  if (raw.empty() && listed.size() != count)
    return fail(Code::kCorrupt, "%zu values for a shape of %llu", listed.size(),
                static_cast<unsigned long long>(count));
  values->resize(static_cast<size_t>(count));
  for (size_t i = 0; i < values->size(); ++i) {
    From value{};
    if (raw.empty())
      value = listed[i];
    else
      std::memcpy(&value, raw.data() + i * sizeof(From), sizeof(From));
    (*values)[i] = static_cast<To>(value);
  }
  return {};
}

Result<OnnxTensor> tensor_of(TensorParts parts) {
  if (parts.external)
    return fail(Code::kUnsupported, "its data lie in another file; save the model as one file");
  OnnxTensor tensor = std::move(parts.tensor);
  PACELINE_ASSIGN(const uint64_t count, value_count(tensor));
  const auto type = static_cast<OnnxType>(parts.type);
  tensor.is_real = type == OnnxType::kFloat || type == OnnxType::kDouble;
  if (type == OnnxType::kFloat) {
    PACELINE_TRY(take_values(parts.raw, parts.floats, count, &tensor.reals));
  } else if (type == OnnxType::kDouble) {
    PACELINE_TRY(take_values(parts.raw, parts.doubles, count, &tensor.reals));
  } else if (type == OnnxType::kInt64) {
    PACELINE_TRY(take_values(parts.raw, parts.wholes, count, &tensor.wholes));
  } else if (type == OnnxType::kInt32) {
    const std::vector<int32_t> narrow(parts.wholes.begin(), parts.wholes.end());
    PACELINE_TRY(take_values(parts.raw, narrow, count, &tensor.wholes));
  } else {
    return fail(Code::kUnsupported, "type %lld; float32, float64, int32 and int64 are read",
                static_cast<long long>(parts.type));
  }
  for (const float value : tensor.reals)
    if (!std::isfinite(value)) return fail(Code::kCorrupt, "a value is not finite");
  return tensor;
}

Result<OnnxAttribute> read_attribute(ByteSpan bytes, std::string* name) {
  OnnxAttribute attribute;
  ProtoReader reader(bytes);
  ProtoField field;
  int64_t kind = 0;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) break;
    switch (field.number) {
      case 1:
        *name = field.text();
        break;
      case 2:
        attribute.real = field.real();
        break;
      case 3:
        attribute.whole = field.whole();
        break;
      case 4:
        attribute.text = field.text();
        break;
      case 5: {
        PACELINE_ASSIGN(attribute.tensor, read_onnx_tensor(field.bytes));
        break;
      }
      case 6:
      case 11:
        return fail(Code::kUnsupported, "it holds a graph of its own");
      case 7:
        PACELINE_TRY(read_repeated(field, &attribute.reals));
        break;
      case 8:
        PACELINE_TRY(read_repeated(field, &attribute.wholes));
        break;
      case 20:
        kind = field.whole();
        break;
      default:
        break;
    }
  }
  if ((kind >= 1 && kind <= 4) || kind == 6 || kind == 7)
    attribute.kind = static_cast<OnnxAttribute::Kind>(kind);
  return attribute;
}

Result<OnnxNode> read_node(ByteSpan bytes) {
  OnnxNode node;
  ProtoReader reader(bytes);
  ProtoField field;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return node;
    switch (field.number) {
      case 1:
        node.inputs.push_back(field.text());
        break;
      case 2:
        node.outputs.push_back(field.text());
        break;
      case 3:
        node.name = field.text();
        break;
      case 4:
        node.op = field.text();
        break;
      case 5: {
        std::string name;
        Result<OnnxAttribute> attribute = read_attribute(field.bytes, &name);
        if (!attribute)
          return fail(attribute.error().code(), "node %s: attribute %s: %s",
                      quoted(node.name).c_str(), quoted(name).c_str(),
                      attribute.error().message().c_str());
        node.attributes[std::move(name)] = std::move(*attribute);
        break;
      }
      case 7:
        node.domain = field.text();
        break;
      default:
        break;
    }
  }
}

// The dimensions of a TensorShapeProto.
Status read_shape(ByteSpan bytes, std::vector<int64_t>* dims) {
  ProtoReader reader(bytes);
  ProtoField field, inner;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    if (field.number != 1) continue;
    if (dims->size() == kDimsMax)
      return fail(Code::kUnsupported, "more than %zu dimensions", kDimsMax);
    dims->push_back(-1);
    ProtoReader dimension(field.bytes);
    for (;;) {
      PACELINE_ASSIGN(const bool some, dimension.next(&inner));
      if (!some) break;
      if (inner.number == 1 && inner.whole() > 0) dims->back() = inner.whole();
    }
  }
}

// Down through ValueInfoProto, TypeProto and its tensor_type.
Status read_value(ByteSpan bytes, int depth, OnnxValue* value) {
  ProtoReader reader(bytes);
  ProtoField field;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    if (depth == 0 && field.number == 1) value->name = field.text();
    if (depth == 0 && field.number == 2) PACELINE_TRY(read_value(field.bytes, 1, value));
    if (depth == 1 && field.number == 1) PACELINE_TRY(read_value(field.bytes, 2, value));
    if (depth == 2 && field.number == 1) value->type = static_cast<OnnxType>(field.whole());
    if (depth == 2 && field.number == 2) PACELINE_TRY(read_shape(field.bytes, &value->dims));
  }
}

Result<OnnxValue> value_of(ByteSpan bytes) {
  OnnxValue value;
  value.type = OnnxType::kNone;
  PACELINE_TRY(read_value(bytes, 0, &value));
  return value;
}

Status read_graph(ByteSpan bytes, OnnxModel* model) {
  ProtoReader reader(bytes);
  ProtoField field;
  uint64_t values = 0;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    if (field.number == 1) {
      if (model->nodes.size() == kNodesMax)
        return fail(Code::kResourceExhausted, "more than %zu nodes", kNodesMax);
      PACELINE_ASSIGN(OnnxNode node, read_node(field.bytes));
      model->nodes.push_back(std::move(node));
    } else if (field.number == 5) {
      PACELINE_ASSIGN(OnnxTensor tensor, read_onnx_tensor(field.bytes));
      values += tensor.count();
      if (values > kModelElementsMax)
        return fail(Code::kResourceExhausted, "more than %llu parameters",
                    static_cast<unsigned long long>(kModelElementsMax));
      std::string name = tensor.name;
      model->constants[std::move(name)] = std::move(tensor);
    } else if (field.number == 11 || field.number == 12) {
      PACELINE_ASSIGN(OnnxValue value, value_of(field.bytes));
      (field.number == 11 ? model->inputs : model->outputs).push_back(std::move(value));
    } else if (field.number == 15) {
      return fail(Code::kUnsupported, "the model has sparse tensors");
    }
  }
}

// OperatorSetIdProto and StringStringEntryProto alike: two fields.
Status read_pair(ByteSpan bytes, ProtoField* first, ProtoField* second) {
  ProtoReader reader(bytes);
  ProtoField field;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) return {};
    if (field.number == 1) *first = field;
    if (field.number == 2) *second = field;
  }
}

}  // namespace

Result<OnnxTensor> read_onnx_tensor(ByteSpan bytes) {
  PACELINE_ASSIGN(TensorParts parts, read_parts(bytes));
  const std::string name = parts.tensor.name;
  Result<OnnxTensor> tensor = tensor_of(std::move(parts));
  if (!tensor)
    return fail(tensor.error().code(), "tensor %s: %s", quoted(name).c_str(),
                tensor.error().message().c_str());
  return tensor;
}

Result<OnnxModel> read_onnx(ByteSpan bytes) {
  OnnxModel model;
  ProtoReader reader(bytes);
  ProtoField field;
  bool graph = false;
  for (;;) {
    PACELINE_ASSIGN(const bool more, reader.next(&field));
    if (!more) break;
    ProtoField first, second;
    if (field.number == 7) {
      if (graph) return fail(Code::kCorrupt, "the model has two graphs");
      graph = true;
      PACELINE_TRY(read_graph(field.bytes, &model));
    } else if (field.number == 8) {
      PACELINE_TRY(read_pair(field.bytes, &first, &second));
      if (first.bytes.empty() || first.text() == "ai.onnx") model.opset = second.whole();
    } else if (field.number == 14) {
      PACELINE_TRY(read_pair(field.bytes, &first, &second));
      model.metadata[first.text()] = second.text();
    }
  }
  if (!graph) return fail(Code::kCorrupt, "this is no ONNX model: it has no graph");
  // Before IR version 4 every initializer is listed as an input, too.
  std::erase_if(model.inputs, [&](const OnnxValue& value) {
    return model.constants.find(value.name) != model.constants.end();
  });
  return model;
}

}  // namespace paceline
