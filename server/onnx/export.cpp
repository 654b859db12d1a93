#include "server/onnx/export.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/json_text.h"
#include "runtime/train/layer.h"
#include "server/onnx/export_chain.h"

namespace paceline {
namespace {

constexpr int64_t kOpset = 17;  // the first with LayerNormalization

Dims dims_of(std::span<const uint32_t> shape) { return {shape.begin(), shape.end()}; }

struct LayerParts {
  const LayerSpec& spec;
  std::span<const float> weight, bias, statistics;
  std::span<const Value> joined = {};  // of joins: what they take
};

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

Dims signal_dims(const LayerSpec& spec) {
  const Signal signal = *signal_of(spec.input_shape);
  return {signal.channels, signal.length};
}

void export_dense(Chain& chain, const LayerParts& part) {
  const auto units = static_cast<int64_t>(part.spec.units);
  chain.reshape({part.spec.input_shape[0]});
  chain.add("Gemm",
            {chain.constant("weight", {units, part.spec.input_shape[0]}, copy(part.weight)),
             chain.constant("bias", {units}, copy(part.bias))},
            {units}, {{"transB", whole_attribute(1)}});
}

void export_convolution(Chain& chain, const LayerParts& part) {
  const LayerSpec& spec = part.spec;
  const bool flat = spec.type == "conv1d";
  const Dims row = flat ? signal_dims(spec) : dims_of(spec.input_shape);
  chain.reshape(row);
  const size_t axes = row.size() - 1;
  const auto each = [&](uint32_t value) { return wholes_attribute(Dims(axes, value)); };
  Dims weight = {spec.filters, row[0] / spec.groups};
  weight.insert(weight.end(), axes, spec.kernel);
  Dims given = dims_of(spec.output_shape);
  if (flat) given = {given[0], given[2]};
  chain.add("Conv",
            {chain.constant("weight", weight, copy(part.weight)),
             chain.constant("bias", {spec.filters}, copy(part.bias))},
            given,
            {{"kernel_shape", each(spec.kernel)},
             {"strides", each(spec.stride)},
             {"dilations", each(spec.dilation)},
             {"pads", wholes_attribute(Dims(2 * axes, spec.padding))},
             {"group", whole_attribute(spec.groups)}});
}

void export_pool(Chain& chain, const LayerParts& part) {
  const LayerSpec& spec = part.spec;
  const bool flat = spec.type.ends_with("1d");
  chain.reshape(flat ? signal_dims(spec) : dims_of(spec.input_shape));
  const size_t axes = flat ? 1 : 2;
  Dims given = dims_of(spec.output_shape);
  if (flat) given = {given[0], given[2]};
  chain.add(spec.type.starts_with("max") ? "MaxPool" : "AveragePool", {}, given,
            {{"kernel_shape", wholes_attribute(Dims(axes, spec.kernel))},
             {"strides", wholes_attribute(Dims(axes, spec.stride))}});
}

void export_global_average(Chain& chain, const LayerParts& part) {
  chain.reshape(dims_of(part.spec.input_shape));
  chain.add("GlobalAveragePool", {}, {part.spec.input_shape[0], 1, 1});
  chain.reshape({part.spec.input_shape[0]});
}

void export_activation(Chain& chain, const LayerParts& part) {
  static const std::map<std::string, std::string> kOps = {
      {"relu", "Relu"}, {"tanh", "Tanh"}, {"sigmoid", "Sigmoid"}, {"leaky_relu", "LeakyRelu"}};
  Attributes attributes;
  if (part.spec.type == "leaky_relu") attributes["alpha"] = real_attribute(part.spec.slope);
  chain.add(kOps.at(part.spec.type), {}, Dims(chain.dims()), std::move(attributes));
}

// x (1 + erf(x / sqrt 2)) / 2: the operator itself came with opset 20.
void export_gelu(Chain& chain, const LayerParts&) {
  const Dims row = chain.dims();
  const std::string x = chain.value();
  chain.add("Div", {chain.constant("root", {}, {1.41421356f})}, row);
  chain.add("Erf", {}, row);
  chain.add("Add", {chain.constant("one", {}, {1.0f})}, row);
  chain.add("Mul", {x}, row);
  chain.add("Mul", {chain.constant("half", {}, {0.5f})}, row);
}

std::vector<float> whole_scale(std::span<const float> distances) {
  std::vector<float> scale = copy(distances);
  for (float& value : scale) value += 1.0f;
  return scale;
}

// In groups of channels as instances of their own, then a scale and a bias for each channel.
void export_group_norm(Chain& chain, const LayerParts& part) {
  const LayerSpec& spec = part.spec;
  const auto groups = static_cast<int64_t>(spec.groups);
  const auto features = static_cast<int64_t>(feature_count(spec.input_shape));
  Dims row = chain.dims();
  if (row[0] != spec.input_shape[0]) row = dims_of(spec.input_shape);
  chain.reshape(row);
  chain.reshape({groups, features / groups});
  const std::vector<float> ones(spec.groups, 1.0f), zeros(spec.groups, 0.0f);
  chain.add("InstanceNormalization",
            {chain.constant("ones", {groups}, ones), chain.constant("zeros", {groups}, zeros)},
            Dims(chain.dims()), {{"epsilon", real_attribute(spec.epsilon)}});
  chain.reshape(row);
  Dims channels(row.size(), 1);
  channels[0] = spec.input_shape[0];
  chain.add("Mul", {chain.constant("scale", channels, whole_scale(part.weight))}, row);
  chain.add("Add", {chain.constant("bias", channels, copy(part.bias))}, row);
}

void export_layer_norm(Chain& chain, const LayerParts& part) {
  const Dims row = chain.dims();
  chain.add("LayerNormalization",
            {chain.constant("scale", row, whole_scale(part.weight)),
             chain.constant("bias", row, copy(part.bias))},
            row, {{"axis", whole_attribute(1)}, {"epsilon", real_attribute(part.spec.epsilon)}});
}

// With the statistics that the fleet has pooled.
void export_batch_norm(Chain& chain, const LayerParts& part) {
  const auto channels = static_cast<int64_t>(part.spec.input_shape[0]);
  const size_t each = part.bias.size();
  chain.reshape(dims_of(part.spec.input_shape));
  chain.add("BatchNormalization",
            {chain.constant("scale", {channels}, whole_scale(part.weight)),
             chain.constant("bias", {channels}, copy(part.bias)),
             chain.constant("mean", {channels}, copy(part.statistics.first(each))),
             chain.constant("variance", {channels}, copy(part.statistics.subspan(each)))},
            Dims(chain.dims()), {{"epsilon", real_attribute(part.spec.epsilon)}});
}

// Each input in its layer's shape.
void export_join(Chain& chain, const LayerParts& part) {
  std::vector<std::string> names;
  for (size_t i = 0; i < part.joined.size(); ++i) {
    chain.go_to(part.joined[i]);
    chain.reshape(dims_of(part.spec.joined[i].shape));
    names.push_back(chain.value());
  }
  chain.go_to({names[0], {}});
  Attributes attributes;
  const bool concat = part.spec.type == "concat";
  if (concat) attributes["axis"] = whole_attribute(1);
  chain.add(concat              ? "Concat"
            : names.size() == 2 ? "Add"
                                : "Sum",
            {names.begin() + 1, names.end()}, dims_of(part.spec.output_shape),
            std::move(attributes));
}

void export_dropout(Chain& chain, const LayerParts& part) {
  chain.add("Dropout", {chain.constant("ratio", {}, {part.spec.rate})}, Dims(chain.dims()));
}

// Nothing is computed: whoever needs a shape asks for it.
void export_nothing(Chain& chain, const LayerParts& part) {
  chain.reshape(dims_of(part.spec.output_shape));
}

void export_transpose(Chain& chain, const LayerParts& part) {
  const Dims row = signal_dims(part.spec);
  chain.reshape(row);
  chain.transpose({0, 2, 1}, {row[1], row[0]});
}

// With the bias in the table.
void export_embedding(Chain& chain, const LayerParts& part) {
  const auto entries = static_cast<int64_t>(part.spec.entries);
  const auto units = static_cast<int64_t>(part.spec.units);
  const int64_t length = part.spec.input_shape[0];
  std::vector<float> table = copy(part.weight);
  for (size_t i = 0; i < table.size(); ++i) table[i] += part.bias[i % part.bias.size()];
  chain.reshape({length});
  chain.add("Clip",
            {chain.constant("first", {}, {0.0f}),
             chain.constant("last", {}, {static_cast<float>(entries - 1)})},
            {length});
  chain.add("Round", {}, {length});
  chain.add("Cast", {}, {length},
            {{"to", whole_attribute(static_cast<int64_t>(OnnxType::kInt64))}});
  OnnxNode& gather = chain.add(
      "Gather", {chain.constant("weight", {entries, units}, std::move(table))}, {length, units});
  std::swap(gather.inputs[0], gather.inputs[1]);
  chain.transpose({0, 2, 1}, {units, length});
}

void export_cell(Chain& chain, const LayerParts& part) {
  const bool lstm = part.spec.type == "lstm";
  // ONNX's gates by ours.
  const std::vector<size_t> order =
      lstm ? std::vector<size_t>{0, 3, 1, 2} : std::vector<size_t>{1, 0, 2};
  const Dims row = signal_dims(part.spec);
  const auto channels = static_cast<size_t>(row[0]), units = size_t{part.spec.units};
  std::vector<float> input, state, bias, state_bias;
  for (const size_t gate : order)
    for (size_t unit = 0; unit < units; ++unit) {
      const std::span<const float> weight =
          part.weight.subspan((gate * units + unit) * (channels + units), channels + units);
      input.insert(input.end(), weight.begin(),
                   weight.begin() + static_cast<std::ptrdiff_t>(channels));
      state.insert(state.end(), weight.begin() + static_cast<std::ptrdiff_t>(channels),
                   weight.end());
      bias.push_back(part.bias[gate * units + unit] + (lstm && gate == 1 ? 1.0f : 0.0f));
      state_bias.push_back(!lstm && gate == 2 ? part.bias[3 * units + unit] : 0.0f);
    }
  bias.insert(bias.end(), state_bias.begin(), state_bias.end());
  const auto rows = static_cast<int64_t>(order.size() * units), u = static_cast<int64_t>(units);
  chain.reshape(row);
  chain.transpose({2, 0, 1}, {});
  Attributes attributes = {{"hidden_size", whole_attribute(u)}};
  if (!lstm) attributes["linear_before_reset"] = whole_attribute(1);
  OnnxNode& cell = chain.add(lstm ? "LSTM" : "GRU",
                             {chain.constant("input_weight", {1, rows, row[0]}, std::move(input)),
                              chain.constant("state_weight", {1, rows, u}, std::move(state)),
                              chain.constant("bias", {1, 2 * rows}, std::move(bias))},
                             {}, std::move(attributes));
  if (!part.spec.sequence) cell.outputs.insert(cell.outputs.begin(), "");
  chain.add("Squeeze", {chain.constant("axes", {part.spec.sequence ? 1 : 0})}, {u});
  if (part.spec.sequence) chain.transpose({1, 2, 0}, {u, row[1]});
}

using ExportRule = void (*)(Chain& chain, const LayerParts& part);
ExportRule rule_of(std::string_view type) {
  struct NamedExport {
    std::string_view type;
    ExportRule rule;
  };
  static constexpr NamedExport kRules[] = {{"dense", export_dense},
                                           {"conv1d", export_convolution},
                                           {"conv2d", export_convolution},
                                           {"maxpool1d", export_pool},
                                           {"maxpool2d", export_pool},
                                           {"avgpool1d", export_pool},
                                           {"avgpool2d", export_pool},
                                           {"globalavgpool", export_global_average},
                                           {"relu", export_activation},
                                           {"leaky_relu", export_activation},
                                           {"tanh", export_activation},
                                           {"sigmoid", export_activation},
                                           {"gelu", export_gelu},
                                           {"group_norm", export_group_norm},
                                           {"layer_norm", export_layer_norm},
                                           {"dropout", export_dropout},
                                           {"flatten", export_nothing},
                                           {"reshape", export_nothing},
                                           {"transpose", export_transpose},
                                           {"embedding", export_embedding},
                                           {"lstm", export_cell},
                                           {"gru", export_cell},
                                           {"batch_norm", export_batch_norm},
                                           {"add", export_join},
                                           {"concat", export_join}};
  for (const NamedExport& known : kRules)
    if (known.type == type) return known.rule;
  PACELINE_CHECK(false);
}

// Scales are one for all or one a column, of which a window has many values.
void export_rows(Chain& chain, const DataSchema& schema) {
  const auto columns = static_cast<int64_t>(schema.columns.size());
  if (schema.windows.used()) {
    chain.enter("data:window");
    chain.reshape({columns, schema.windows.rows});
  }
  const auto add = [&](const char* op, const char* what, const std::vector<float>& values,
                       float idle) {
    if (std::ranges::all_of(values, [&](float value) { return value == idle; })) return;
    Dims dims(chain.dims().size(), 1);
    dims[0] = static_cast<int64_t>(values.size());
    chain.enter(what);
    chain.add(op, {chain.constant("values", dims, values)}, Dims(chain.dims()));
  };
  add("Mul", "data:scale", schema.scale, 1.0f);
  add("Add", "data:offset", schema.offset, 0.0f);
}

void export_answers(Chain& chain, const ModelSpec& model, const DataSchema& schema) {
  chain.enter("answers:");
  chain.reshape({static_cast<int64_t>(model.output_count)});
  const Dims row = chain.dims();
  if (model.class_count > 0) {
    chain.add("Softmax", {}, row, {{"axis", whole_attribute(-1)}});
  } else {
    chain.add("Sub", {chain.constant("label_offset", {}, {schema.label_offset})}, row);
    chain.add("Div", {chain.constant("label_scale", {}, {schema.label_scale})}, row);
  }
  chain.end(model.class_count > 0 ? "probabilities" : "numbers");
}

std::string json_list(std::span<const std::string> names) {
  std::string text = "[";
  for (const std::string& name : names) text += (text.size() == 1 ? "" : ",") + json_quoted(name);
  return text + "]";
}

}  // namespace

OnnxModel export_onnx(const ModelSpec& model, const DataSchema& schema,
                      std::span<const float> parameters) {
  PACELINE_CHECK(parameters.size() == model.layout.element_count());
  OnnxModel onnx;
  onnx.opset = kOpset;
  const auto features = static_cast<int64_t>(model.input_features());
  onnx.inputs.push_back({"rows", OnnxType::kFloat, {-1, features}});
  Chain chain(&onnx);
  chain.go_to({"rows", {features}});
  export_rows(chain, schema);
  std::vector<Value> values = {chain.at()};  // by LayerSpec::inputs
  size_t tensor = 0;
  const auto next = [&] {
    const TensorSpec& place = model.layout.tensors()[tensor++];
    return parameters.subspan(static_cast<size_t>(place.offset), static_cast<size_t>(place.count));
  };
  for (const LayerSpec& layer : model.layers) {
    LayerParts part{layer, {}, {}, {}};
    const LayerType& type = *find_layer_type(layer.type);
    if (type.append_tensors) {
      part.weight = next();
      part.bias = next();
    }
    if (type.has_statistics) part.statistics = next();
    std::vector<Value> joined;
    if (type.joins)
      for (const uint32_t value : layer.inputs) joined.push_back(values[value]);
    part.joined = joined;
    chain.go_to(values[layer.inputs[0]]);
    chain.enter(layer.name);
    rule_of(layer.type)(chain, part);
    values.push_back(chain.at());
  }
  export_answers(chain, model, schema);
  onnx.outputs.push_back(
      {chain.value(), OnnxType::kFloat, {-1, static_cast<int64_t>(model.output_count)}});
  if (schema.names_columns()) {
    onnx.metadata["columns"] = json_list(schema.columns);
    onnx.metadata["label"] = schema.label;
  }
  if (!schema.classes.empty()) onnx.metadata["classes"] = json_list(schema.classes);
  return onnx;
}

}  // namespace paceline
