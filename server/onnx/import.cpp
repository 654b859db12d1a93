#include "server/onnx/import.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/base/json_text.h"
#include "runtime/base/utf8.h"
#include "runtime/train/layer.h"
#include "server/onnx/import_state.h"

namespace paceline {
namespace {

ImportRule find_rule(const OnnxNode& node) {
  if (!node.domain.empty() && node.domain != "ai.onnx") return nullptr;
  for (const std::span<const NamedRule> rules : {shape_rules(), window_rules(), cell_rules()})
    for (const NamedRule& rule : rules)
      if (rule.op == node.op) return rule.rule;
  return nullptr;
}

const OnnxNode* taker_of(const OnnxModel& model, std::string_view value, std::string_view op) {
  const OnnxNode* only = nullptr;
  for (const OnnxNode& node : model.nodes)
    if (std::ranges::find(node.inputs, value) != node.inputs.end()) {
      if (only) return nullptr;
      only = &node;
    }
  return only && only->op == op ? only : nullptr;
}

bool is_constant(const ImportState& state, const OnnxNode& node, float value) {
  for (const std::string& input : node.inputs)
    if (const OnnxTensor* constant = state.constant(input))
      return constant->is_real && constant->reals.size() == 1 &&
             std::abs(constant->reals[0] - value) < 1e-5f;
  return false;
}

// x / sqrt 2, Erf, + 1, * x, * 1/2: how exporters without Gelu write it.
Result<bool> take_gelu(ImportState& state, const OnnxNode& node) {
  if (node.op != "Div" || node.outputs.empty() || !is_constant(state, node, 1.41421356f))
    return false;
  const OnnxNode* erf = taker_of(state.model, node.outputs[0], "Erf");
  const OnnxNode* add =
      erf && !erf->outputs.empty() ? taker_of(state.model, erf->outputs[0], "Add") : nullptr;
  const OnnxNode* times =
      add && !add->outputs.empty() ? taker_of(state.model, add->outputs[0], "Mul") : nullptr;
  const OnnxNode* half =
      times && !times->outputs.empty() ? taker_of(state.model, times->outputs[0], "Mul") : nullptr;
  if (!half || half->outputs.empty() || !is_constant(state, *add, 1.0f) ||
      !is_constant(state, *half, 0.5f) ||
      std::ranges::find(times->inputs, state.current) == times->inputs.end())
    return false;
  PACELINE_TRY(state.net.add(layer_of("gelu")));
  for (const OnnxNode* part : {erf, add, times, half}) state.taken[part->outputs[0]] = true;
  state.current = half->outputs[0];
  return true;
}

// Numbers that become places in a table: the embedding rounds and bounds them itself.
Result<bool> take_places(ImportState& state, const OnnxNode& node) {
  const OnnxNode* end = &node;
  const OnnxNode* clip = nullptr;
  while (end && (end->op == "Clip" || end->op == "Round" || end->op == "Cast") &&
         !end->outputs.empty()) {
    if (end->op == "Clip") clip = end;
    const OnnxNode* next = nullptr;
    for (const char* op : {"Clip", "Round", "Cast", "Gather"})
      if (const OnnxNode* found = taker_of(state.model, end->outputs[0], op)) next = found;
    end = next;
  }
  if (!end || end == &node || end->op != "Gather") return false;
  const OnnxTensor* table = state.constant(end->input(0));
  if (!table || table->dims.empty()) return false;
  const auto is = [&](size_t input, float value) {
    const OnnxTensor* bound = state.constant(clip->input(input));
    return bound && bound->reals == std::vector<float>{value};
  };
  if (clip && !(is(1, 0.0f) && is(2, static_cast<float>(table->dims[0] - 1))))
    return fail(Code::kUnsupported, "it bounds places otherwise than by the table's length");
  state.current = node.outputs[0];
  return true;
}

// How many values of the net the node takes, and goes on from the last of them.
Result<size_t> select_inputs(ImportState& state, const OnnxNode& node) {
  size_t count = 0;
  for (const std::string& input : node.inputs) {
    if (input.empty() || state.constant(input)) continue;
    ++count;
    if (!state.select(input))
      return fail(Code::kUnsupported, "it takes '%s', which no node before it gives",
                  input.c_str());
  }
  return count;
}

// Leaves state.current at the node's output.
Status convert_live(ImportState& state, const OnnxNode& node, size_t input_count) {
  if (input_count > 1) return join_branches(state, node);
  PACELINE_ASSIGN(const bool gelu, take_gelu(state, node));
  if (gelu) return {};
  PACELINE_ASSIGN(const bool places, take_places(state, node));
  if (places) return {};
  const ImportRule rule = find_rule(node);
  if (!rule) return fail(Code::kUnsupported, "this operator is not known");
  const std::string before = state.current;
  PACELINE_TRY(rule(state, node));
  if (state.current == before) state.current = node.outputs[0];
  return {};
}

Status convert(ImportState& state, const OnnxNode& node) {
  PACELINE_ASSIGN(const size_t count, select_inputs(state, node));
  PACELINE_ASSIGN(const bool folded, fold_constants(state, node));
  if (folded) return {};
  if (state.ended) return fail(Code::kUnsupported, "it comes behind the softmax");
  if (count == 0) return fail(Code::kUnsupported, "it does not take what a node before it gives");
  if (node.outputs.empty()) return fail(Code::kCorrupt, "it has no output");
  PACELINE_TRY(convert_live(state, node, count));
  state.keep();
  return {};
}

void walk(ImportState& state, OnnxImport* import) {
  bool lost = false;
  size_t place = 0;
  for (const OnnxNode& node : state.model.nodes) {
    ++place;
    if (!state.leads_to_output(node)) continue;
    if (!node.outputs.empty() && state.taken.contains(node.outputs[0])) continue;
    Status status;
    if (!lost)
      status = convert(state, node);
    else if (!find_rule(node) && node.op != "Constant" && node.op != "Shape" && node.op != "Concat")
      status = fail(Code::kUnsupported, "this operator is not known");
    if (status.ok()) continue;
    lost = true;
    import->refused.push_back({node.name.empty() ? format_text("node %zu", place) : node.name,
                               node.op, status.message()});
  }
}

// A list of texts in the metadata; empty if there is none.
std::vector<std::string> names_of(const OnnxModel& model, const std::string& key) {
  std::vector<std::string> names;
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return names;
  JsonReader json(found->second);
  if (!json.take('[')) return {};
  do {
    Result<std::string> name = json.string();
    if (!name) return {};
    names.push_back(std::move(*name));
  } while (json.take(','));
  return json.take(']') ? names : std::vector<std::string>();
}

template <class Value, class Text>
std::string list_text(const std::vector<Value>& values, Text text) {
  std::string list = "[";
  for (const Value& value : values) list += (list.size() == 1 ? "" : ", ") + text(value);
  return list + "]";
}

// [data] as far as the graph and its metadata tell it.
std::string data_text(const ImportState& state, uint32_t class_count) {
  const auto number = [](float value) { return format_text("%.9g", static_cast<double>(value)); };
  std::string text;
  const std::vector<std::string> classes = names_of(state.model, "classes");
  const auto label = state.model.metadata.find("label");
  if (!state.columns.empty() && label != state.model.metadata.end() && is_utf8(label->second) &&
      classes.size() == class_count) {
    text += "columns = " + list_text(state.columns, json_quoted) + "\n";
    text += "label = " + json_quoted(label->second) + "\n";
    if (class_count > 0) text += "classes = " + list_text(classes, json_quoted) + "\n";
  }
  if (state.scale != std::vector<float>{1} || state.offset != std::vector<float>{0})
    text += "scale = " +
            (state.scale.size() == 1 ? number(state.scale[0]) : list_text(state.scale, number)) +
            "\noffset = " +
            (state.offset.size() == 1 ? number(state.offset[0]) : list_text(state.offset, number)) +
            "\n";
  return text.empty() ? text : "\n[data]\n" + text;
}

// The input, with its batch where the cell that takes it first has it.
Status start(ImportState& state) {
  const std::vector<OnnxValue>& inputs = state.model.inputs;
  if (inputs.size() != 1 || state.model.outputs.size() != 1)
    return fail(Code::kUnsupported,
                "the model has %zu inputs and %zu outputs; one of each is taken", inputs.size(),
                state.model.outputs.size());
  size_t batch_axis = 0;
  for (const OnnxNode& node : state.model.nodes)
    if ((node.op == "LSTM" || node.op == "GRU") && node.input(0) == inputs[0].name)
      batch_axis = node.whole("layout", 0) == 0 ? 1 : 0;
  state.look_through();
  PACELINE_TRY(state.start(inputs[0], batch_axis));
  state.columns = names_of(state.model, "columns");
  if (state.columns.size() != state.row_count() || !state.model.metadata.contains("label"))
    state.columns.clear();
  return {};
}

}  // namespace

Result<OnnxImport> import_onnx(const OnnxModel& model, bool numbers) {
  ImportState state(model);
  OnnxImport import;
  PACELINE_TRY(start(state));
  walk(state, &import);
  import.notes = state.notes;
  if (!import.refused.empty()) {
    for (const NetBuilder::Layer& layer : state.net.layers())
      import.model.layers.push_back(layer.spec);
    return import;
  }
  if (!state.select(model.outputs[0].name))
    return fail(Code::kUnsupported, "output '%s' is not what a node gives",
                model.outputs[0].name.c_str());
  if (state.row.size() != 1) PACELINE_TRY(state.natural());
  if (state.net.shape().size() != 1) PACELINE_TRY(state.flat());
  if (state.net.layers().empty()) PACELINE_TRY(state.net.add(layer_of("flatten")));
  const bool classes = state.net.shape()[0] >= 2 && !numbers;
  if (state.classes && !classes)
    return fail(Code::kUnsupported, "it ends in a softmax, so it tells classes, two at least");
  import.toml = state.net.toml(classes);
  import.toml += data_text(state, classes ? state.net.shape()[0] : 0);
  if (classes && !state.classes)
    import.notes.push_back(format_text(
        "no softmax at the end: its %u outputs are taken as scores of classes; --numbers takes "
        "them as numbers",
        state.net.shape()[0]));
  PACELINE_ASSIGN(import.model, parse_model(import.toml));
  import.parameters = state.net.parameters(import.model);
  if (!std::ranges::all_of(import.parameters, [](float value) { return std::isfinite(value); }))
    return fail(Code::kUnsupported, "factors in a row make weights that are not finite");
  return import;
}

namespace {

// Where it is not just what the layer before gives.
std::string inputs_text(const ModelSpec& model, size_t layer) {
  const std::vector<uint32_t>& inputs = model.layers[layer].inputs;
  if (inputs.size() == 1 && inputs[0] == layer) return {};
  std::string text;
  for (const uint32_t value : inputs)
    text += (text.empty() ? "  takes " : ", ") +
            (value == 0 ? std::string(kModelInputName) : model.layers[value - 1].name);
  return text;
}

}  // namespace

std::string import_text(const OnnxImport& import) {
  std::string text = format_text("%-18s %-18s %12s\n", "layer", "gives", "parameters");
  uint64_t total = 0;
  for (size_t i = 0; i < import.model.layers.size(); ++i) {
    const LayerSpec& layer = import.model.layers[i];
    std::vector<TensorSpec> tensors;
    if (const LayerType* type = find_layer_type(layer.type); type->append_tensors)
      type->append_tensors(layer, tensors);
    uint64_t count = 0;
    for (const TensorSpec& tensor : tensors) count += feature_count(tensor.shape);
    total += count;
    text += format_text("%-18s %-18s %12llu", layer.name.c_str(),
                        shape_text(layer.output_shape).c_str(),
                        static_cast<unsigned long long>(count)) +
            inputs_text(import.model, i) + "\n";
  }
  text += format_text("%llu trainable parameters\n", static_cast<unsigned long long>(total));
  for (const std::string& note : import.notes) text += "note: " + note + "\n";
  for (const OnnxRefusal& refusal : import.refused)
    text += format_text("not supported: %s (%s): %s\n", refusal.node.c_str(), refusal.op.c_str(),
                        refusal.reason.c_str());
  return text;
}

}  // namespace paceline
