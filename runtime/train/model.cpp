#include "runtime/train/model.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/nearest.h"
#include "runtime/base/random.h"
#include "runtime/train/layer.h"
#include "runtime/train/statistics.h"

namespace paceline {
namespace {

constexpr size_t kLayersMax = 256;
// Activations of one row in one layer: 64 MiB as float32, far above any image of a board's camera.
constexpr uint32_t kFeaturesMax = 16 * 1024 * 1024;
// Room for ".weight" in a tensor's name.
constexpr size_t kLayerNameBytesMax = kNameBytesMax - 8;

std::string where(const toml::source_region& source) {
  return format_text("line %u, column %u", static_cast<unsigned>(source.begin.line),
                     static_cast<unsigned>(source.begin.column));
}

tl::unexpected<Status> fail_at(const toml::node& node, const std::string& reason) {
  return fail(Code::kInvalidArgument, "%s: %s", where(node.source()).c_str(), reason.c_str());
}

Result<toml::table> parse_toml(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "%s: %s", where(error.source()).c_str(),
                std::string(error.description()).c_str());
  }
}

Status reject_unknown_keys(const toml::table& table, const std::string& owner,
                           std::span<const std::string_view> known) {
  for (const auto& [key, value] : table) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    return fail(Code::kInvalidArgument, "%s: unknown key '%s' in %s%s", where(key.source()).c_str(),
                std::string(key.str()).c_str(), owner.c_str(),
                suggest_name(key.str(), known).c_str());
  }
  return {};
}

Result<uint32_t> whole_number(const toml::node& node, std::string_view key, uint32_t smallest,
                              uint32_t largest) {
  if (const auto choice = node.value_exact<bool>(); choice && largest == 1)
    return static_cast<uint32_t>(*choice);
  const auto value = node.value_exact<int64_t>();
  if (!value || *value < smallest || *value > largest)
    return fail_at(node, format_text("'%s' must be a whole number from %u to %u",
                                     std::string(key).c_str(), smallest, largest));
  return static_cast<uint32_t>(*value);
}

Result<float> fraction(const toml::node& node, const LayerFraction& key) {
  const auto value = node.value<double>();
  const float rounded = value ? static_cast<float>(*value) : -1.0f;
  if (!node.is_number() || !(rounded >= key.smallest && rounded <= key.largest))
    return fail_at(
        node, format_text("'%s' must be a number from %g to %g", std::string(key.name).c_str(),
                          static_cast<double>(key.smallest), static_cast<double>(key.largest)));
  return rounded;
}

Result<std::vector<uint32_t>> read_input(const toml::node& node) {
  const toml::array* sizes = node.as_array();
  if (!sizes || sizes->empty() || sizes->size() > 3)
    return fail_at(node,
                   "'input' must be [features], [height, width] or [channels, height, width]");
  std::vector<uint32_t> shape;
  if (sizes->size() == 2) shape.push_back(1);
  for (const toml::node& size : *sizes) {
    PACELINE_ASSIGN(const uint32_t dimension, whole_number(size, "input", 1, kFeaturesMax));
    shape.push_back(dimension);
    if (feature_count(shape) > kFeaturesMax)
      return fail_at(node, format_text("'input' has more than %u features", kFeaturesMax));
  }
  return shape;
}

Result<const LayerType*> read_type(const toml::table& table) {
  std::vector<std::string_view> names;
  for (const LayerType* type : layer_types()) names.push_back(type->name);
  const toml::node* node = table.get("type");
  if (!node) return fail_at(table, "a [[layer]] needs a type" + suggest_name("", names));
  const std::string name = node->value_exact<std::string>().value_or("");
  const LayerType* type = find_layer_type(name);
  if (!type) return fail_at(*node, "unknown layer type '" + name + "'" + suggest_name(name, names));
  return type;
}

Result<std::string> read_name(const toml::table& table, const LayerType& type, int number) {
  const toml::node* node = table.get("name");
  if (!node) return std::string(type.name) + std::to_string(number);
  const auto name = node->value_exact<std::string>();
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  if (!name || name->empty() || name->size() > kLayerNameBytesMax ||
      !std::all_of(name->begin(), name->end(), allowed))
    return fail_at(*node, format_text("'name' must be 1 to %zu letters, digits, '_' or '-'",
                                      kLayerNameBytesMax));
  return *name;
}

// What layers may take, in the order of LayerSpec::inputs.
struct Values {
  std::vector<std::string> names;
  std::vector<std::vector<uint32_t>> shapes;
  std::vector<bool> taken;

  uint32_t last() const { return static_cast<uint32_t>(names.size() - 1); }
  void add(std::string name, std::vector<uint32_t> shape) {
    names.push_back(std::move(name));
    shapes.push_back(std::move(shape));
    taken.push_back(false);
  }
};

Result<uint32_t> find_value(const toml::node& node, const LayerSpec& layer, const Values& values) {
  const std::string name = node.value_exact<std::string>().value_or("");
  const auto found = std::find(values.names.begin(), values.names.end(), name);
  if (found != values.names.end()) return static_cast<uint32_t>(found - values.names.begin());
  const std::vector<std::string_view> known(values.names.begin(), values.names.end());
  const std::string_view nearest = nearest_name(name, known);
  return fail_at(node, format_text("layer '%s' takes '%s', but no layer before it has that name%s",
                                   layer.name.c_str(), name.c_str(),
                                   nearest.empty() ? "" : suggest_name(name, known).c_str()));
}

Status read_joined(const toml::table& table, const Values& values, LayerSpec& spec) {
  const toml::node* node = table.get("inputs");
  const toml::array* listed = node ? node->as_array() : nullptr;
  if (!listed || listed->size() < 2 || listed->size() > kJoinedMax)
    return fail_at(node ? *node : table,
                   format_text("layer '%s' needs 'inputs', a list of 2 to %zu names of layers "
                               "before it",
                               spec.name.c_str(), kJoinedMax));
  for (const toml::node& element : *listed) {
    PACELINE_ASSIGN(const uint32_t value, find_value(element, spec, values));
    if (std::find(spec.inputs.begin(), spec.inputs.end(), value) != spec.inputs.end())
      return fail_at(element, format_text("layer '%s' takes '%s' twice", spec.name.c_str(),
                                          values.names[value].c_str()));
    spec.inputs.push_back(value);
    spec.joined.push_back({values.names[value], values.shapes[value]});
  }
  return {};
}

// What the layer takes: as named, else what the one before it gives.
Status read_inputs(const toml::table& table, const LayerType& type, Values& values,
                   LayerSpec& spec) {
  if (type.joins) {
    PACELINE_TRY(read_joined(table, values, spec));
  } else if (const toml::node* node = table.get("input")) {
    PACELINE_ASSIGN(const uint32_t value, find_value(*node, spec, values));
    spec.inputs = {value};
  } else {
    spec.inputs = {values.last()};
  }
  for (const uint32_t value : spec.inputs) values.taken[value] = true;
  spec.input_shape = values.shapes[spec.inputs[0]];
  return {};
}

Result<Frozen> read_frozen(const toml::node& node) {
  if (const auto all = node.value_exact<bool>()) return *all ? Frozen::kAll : Frozen::kNone;
  if (node.value_exact<std::string>() == "weights") return Frozen::kWeights;
  return fail_at(node, "'frozen' must be true, false or \"weights\"");
}

Status read_keys(const toml::table& table, const LayerType& type, LayerSpec& spec) {
  std::vector<std::string_view> known = {"type", "name", type.joins ? "inputs" : "input"};
  if (type.append_tensors) known.push_back("frozen");
  for (const LayerKey& key : type.keys) known.push_back(key.name);
  for (const LayerFraction& key : type.fractions) known.push_back(key.name);
  PACELINE_TRY(reject_unknown_keys(table, "a layer of type \"" + spec.type + "\"", known));
  for (const LayerKey& key : type.keys) {
    if (const toml::node* node = table.get(key.name)) {
      PACELINE_ASSIGN(spec.*key.value, whole_number(*node, key.name, key.smallest, key.largest));
    } else if (key.required) {
      return fail_at(table, "layer '" + spec.name + "' needs '" + std::string(key.name) + "'");
    }
  }
  if (const toml::node* node = table.get("frozen")) {
    PACELINE_ASSIGN(spec.frozen, read_frozen(*node));
  }
  for (const LayerFraction& key : type.fractions) {
    spec.*key.value = key.preset;
    if (const toml::node* node = table.get(key.name)) {
      PACELINE_ASSIGN(spec.*key.value, fraction(*node, key));
    }
  }
  return {};
}

// Options and shapes of one layer, given what it may take.
Result<LayerSpec> read_layer(const toml::table& table, Values& values,
                             std::map<std::string_view, int>& counts) {
  PACELINE_ASSIGN(const LayerType* type, read_type(table));
  LayerSpec spec;
  spec.type = type->name;
  PACELINE_ASSIGN(spec.name, read_name(table, *type, ++counts[type->name]));
  if (std::find(values.names.begin(), values.names.end(), spec.name) != values.names.end())
    return fail_at(table, "the name '" + spec.name +
                              (spec.name == kModelInputName ? "' is that of the model's input"
                                                            : "' is another layer's already") +
                              "; give this layer one of its own");
  PACELINE_TRY(read_keys(table, *type, spec));
  PACELINE_TRY(read_inputs(table, *type, values, spec));
  if (Status status = type->infer(spec); !status.ok())
    return fail_at(table, "layer '" + spec.name + "' " + status.message());
  if (feature_count(spec.output_shape) > kFeaturesMax)
    return fail_at(
        table, format_text("layer '%s' has more than %u outputs", spec.name.c_str(), kFeaturesMax));
  return spec;
}

Status read_layers(const toml::table& root, const toml::node& model, ModelSpec& spec) {
  const toml::node* node = root.get("layer");
  const toml::array* tables = node ? node->as_array() : nullptr;
  if (!tables || tables->empty())
    return fail_at(node ? *node : model, "give at least one [[layer]]");
  if (tables->size() > kLayersMax)
    return fail_at(*node, format_text("%zu layers, at most %zu", tables->size(), kLayersMax));
  Values values;
  values.add(std::string(kModelInputName), spec.input_shape);
  std::map<std::string_view, int> counts;
  for (const toml::node& element : *tables) {
    const toml::table* table = element.as_table();
    if (!table) return fail_at(element, "write each layer as a table [[layer]]");
    PACELINE_ASSIGN(LayerSpec layer, read_layer(*table, values, counts));
    if (find_layer_type(layer.type)->list_touched && !spec.layers.empty())
      return fail_at(*table,
                     "layer '" + layer.name + "' takes sparse rows, so it has to be the first");
    values.add(layer.name, layer.output_shape);
    spec.layers.push_back(std::move(layer));
  }
  spec.layers.back().gives_answers = true;
  for (size_t i = 0; i + 1 < spec.layers.size(); ++i)
    if (!values.taken[i + 1])
      return fail_at((*tables)[i],
                     format_text("no layer takes what layer '%s' gives; leave it out, or name it "
                                 "as another layer's input",
                                 spec.layers[i].name.c_str()));
  const std::vector<uint32_t>& shape = values.shapes.back();
  if (shape.size() != 1 || shape[0] != spec.output_count)
    return fail_at(
        tables->back(),
        format_text("the last layer, '%s', gives %s but must give one output for each of "
                    "the %u %s; end with a layer of type \"dense\" and units = %u",
                    spec.layers.back().name.c_str(), shape_text(shape).c_str(), spec.output_count,
                    spec.class_count > 0 ? "classes" : "numbers", spec.output_count));
  return {};
}

}  // namespace

uint64_t ModelSpec::input_features() const { return feature_count(input_shape); }

uint32_t ModelSpec::sparse_entries() const {
  const LayerSpec& first = layers.front();
  return find_layer_type(first.type)->list_touched ? first.entries : 0;
}

Result<ModelSpec> parse_model(std::string_view text) {
  if (text.size() > kRunTextBytesMax)
    return fail(Code::kResourceExhausted, "the description has %zu bytes, at most %zu", text.size(),
                kRunTextBytesMax);
  PACELINE_ASSIGN(const toml::table root, parse_toml(text));
  const toml::table* model = root["model"].as_table();
  if (!model) return fail(Code::kInvalidArgument, "the table [model] is missing");
  static constexpr std::string_view kKnown[] = {"input", "classes", "outputs"};
  PACELINE_TRY(reject_unknown_keys(*model, "[model]", kKnown));
  const toml::node* input = model->get("input");
  const toml::node* classes = model->get("classes");
  const toml::node* outputs = model->get("outputs");
  if (!input) return fail_at(*model, "[model] needs 'input', such as input = [28, 28]");
  if (!classes && !outputs)
    return fail_at(
        *model,
        "[model] needs 'classes', such as classes = 10, or, where the net gives numbers, "
        "outputs = 1");
  if (classes && outputs)
    return fail_at(*outputs, "[model] has both 'classes' and 'outputs'; leave one out");

  ModelSpec spec;
  PACELINE_ASSIGN(spec.input_shape, read_input(*input));
  if (classes) {
    PACELINE_ASSIGN(spec.class_count, whole_number(*classes, "classes", 2, kFeaturesMax));
    spec.output_count = spec.class_count;
  } else {
    PACELINE_ASSIGN(spec.output_count, whole_number(*outputs, "outputs", 1, kFeaturesMax));
  }
  PACELINE_TRY(read_layers(root, *model, spec));

  std::vector<TensorSpec> tensors;
  bool learns = false;
  for (const LayerSpec& layer : spec.layers)
    if (const LayerType* type = find_layer_type(layer.type); type->append_tensors) {
      type->append_tensors(layer, tensors);
      learns = learns || layer.frozen != Frozen::kAll;
    }
  if (!tensors.empty() && !learns)
    return fail_at(*model, "every layer is frozen: leave out 'frozen' in the last one at least");
  auto layout = ParameterLayout::make(std::move(tensors));
  if (!layout) return fail_at(*model, layout.error().message());
  spec.layout = std::move(*layout);
  if (const size_t count = statistic_count(spec.layout); count > kStatisticElementsMax)
    return fail_at(*model, format_text("batch_norm over %zu channels, at most %u", count / 2,
                                       kStatisticElementsMax / 2));
  return spec;
}

// He et al. 2015: uniform in +-sqrt(6 / inputs of a unit) keeps the variance through relu layers.
void init_parameters(const ModelSpec& spec, uint64_t seed, std::span<float> parameters) {
  PACELINE_CHECK(parameters.size() == spec.layout.element_count());
  std::fill(parameters.begin(), parameters.end(), 0.0f);
  uint64_t stream = 0;
  for (const TensorSpec& tensor : spec.layout.tensors()) {
    Random random(seed, stream++);
    const auto values =
        parameters.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count));
    if (tensor.tensor_class == TensorClass::kStatistic)
      std::ranges::fill(values.subspan(values.size() / 2), 1.0f);
    if (tensor.tensor_class != TensorClass::kWeight) continue;
    const uint64_t inputs = tensor.count / tensor.shape[0];
    const float limit = std::sqrt(6.0f / static_cast<float>(inputs));
    for (float& value : values) value = limit * random.symmetric();
  }
}

}  // namespace paceline
