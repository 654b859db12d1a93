#include "server/onnx/import.h"

#include <doctest/doctest.h>

#include <cmath>

#include "server/onnx/export.h"
#include "server/onnx/protobuf.h"
#include "tests/server/onnx/sample_nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

using Names = std::vector<std::string>;

// A model by hand: constants of given shapes with random values, nodes in order.
class HandModel {
 public:
  explicit HandModel(std::vector<int64_t> input) {
    model.opset = 17;
    model.inputs.push_back({"x", OnnxType::kFloat, std::move(input)});
    model.outputs.push_back({"y", OnnxType::kFloat, {-1, -1}});
  }
  HandModel& reals(const std::string& name, std::vector<int64_t> dims) {
    size_t count = 1;
    for (const int64_t dimension : dims) count *= static_cast<size_t>(dimension);
    std::vector<float> values(count);
    for (float& value : values) value = 0.5f + 0.4f * random_.symmetric();
    model.constants[name] = real_tensor(name, std::move(dims), std::move(values));
    return *this;
  }
  HandModel& wholes(const std::string& name, std::vector<int64_t> values) {
    model.constants[name] = whole_tensor(name, std::move(values));
    return *this;
  }
  HandModel& node(const std::string& op, Names inputs, Names outputs,
                  std::map<std::string, OnnxAttribute, std::less<>> attributes = {}) {
    OnnxNode node;
    node.name = op + std::to_string(model.nodes.size());
    node.op = op;
    node.inputs = std::move(inputs);
    node.outputs = std::move(outputs);
    node.attributes = std::move(attributes);
    model.nodes.push_back(std::move(node));
    return *this;
  }

  OnnxModel model;

 private:
  Random random_{test::seed(), 60};
};

std::string types_of(const OnnxModel& model, bool numbers = false) {
  const auto import = import_onnx(model, numbers);
  if (!import) return import.error().message();
  std::string types;
  for (const OnnxRefusal& refusal : import->refused)
    types += "[" + refusal.op + ": " + refusal.reason + "] ";
  for (const LayerSpec& layer : import->model.layers) types += layer.type + " ";
  return types;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

HandModel small_conv() {
  HandModel hand({-1, 2, 5, 4});
  hand.reals("w", {3, 2, 3, 3}).reals("b", {3}).node("Conv", {"x", "w", "b"}, {"c"});
  return hand;
}

}  // namespace

TEST_SUITE_BEGIN("onnx/import");

TEST_CASE("import: a Reshape whose shape is computed from the batch is a flatten") {
  HandModel hand = small_conv();
  hand.wholes("zero", {0}).wholes("rest", {-1}).reals("m", {18, 4}).reals("n", {4});
  hand.model.constants["zero"].dims.clear();
  hand.node("Relu", {"c"}, {"r"}).node("Shape", {"r"}, {"s"}).node("Gather", {"s", "zero"}, {"g"});
  hand.wholes("axes", {0}).node("Unsqueeze", {"g", "axes"}, {"u"});
  hand.node("Concat", {"u", "rest"}, {"t"}, {{"axis", whole_attribute(0)}});
  hand.node("Reshape", {"r", "t"}, {"f"}).node("MatMul", {"f", "m"}, {"z"});
  hand.node("Add", {"n", "z"}, {"y"});
  CHECK(types_of(hand.model) == "conv2d relu flatten dense ");
}

TEST_CASE("import: batch normalisation goes into the layer before it, or becomes one") {
  HandModel hand = small_conv();
  for (const char* name : {"s", "t", "mean", "variance"}) hand.reals(name, {3});
  hand.node("BatchNormalization", {"c", "s", "t", "mean", "variance"}, {"n"});
  hand.node("Relu", {"n"}, {"r"});
  hand.node("BatchNormalization", {"r", "s", "t", "mean", "variance"}, {"y"});
  CHECK(types_of(hand.model) == "conv2d relu conv2d flatten ");
  const auto import = import_onnx(hand.model, false);
  REQUIRE(import.has_value());
  CHECK(import->notes.size() == 3);
  CHECK(has(import->notes[0], "in the weights of conv2d1"));
}

TEST_CASE("import: a cell over [batch, steps, channels] whose last state is picked") {
  HandModel hand({-1, 6, 3});
  hand.reals("w", {1, 20, 3}).reals("r", {1, 20, 5}).reals("b", {1, 40}).reals("m", {5, 4});
  hand.node("Transpose", {"x"}, {"t"}, {{"perm", wholes_attribute({1, 0, 2})}});
  // The initial state as PyTorch computes it: zeros of the batch's size.
  hand.wholes("one", {1}).wholes("units", {5}).node("Shape", {"t"}, {"s"});
  hand.node("Gather", {"s", "one"}, {"batch"});
  hand.node("Concat", {"one", "batch", "units"}, {"shape"}, {{"axis", whole_attribute(0)}});
  hand.node("ConstantOfShape", {"shape"}, {"h"});
  hand.node("LSTM", {"t", "w", "r", "b", "", "h", "h"}, {"all", "", ""},
            {{"hidden_size", whole_attribute(5)}});
  hand.node("Squeeze", {"all", "one"}, {"q"});
  hand.node("Transpose", {"q"}, {"p"}, {{"perm", wholes_attribute({1, 0, 2})}});
  hand.wholes("last", {-1});
  hand.model.constants["last"].dims.clear();
  hand.node("Gather", {"p", "last"}, {"g"}, {{"axis", whole_attribute(1)}});
  hand.node("Gemm", {"g", "m"}, {"y"});
  CHECK(types_of(hand.model) == "transpose lstm dense ");
  const auto import = import_onnx(hand.model, false);
  REQUIRE(import.has_value());
  CHECK(import->model.layers[1].sequence == 0);
}

TEST_CASE("import: a gelu that is written out is one layer") {
  HandModel hand({-1, 6});
  hand.reals("m", {6, 3}).node("Gemm", {"x", "m"}, {"z"});
  hand.reals("root", {}).reals("one", {}).reals("half", {});
  hand.model.constants["root"].reals = {std::sqrt(2.0f)};
  hand.model.constants["one"].reals = {1.0f};
  hand.model.constants["half"].reals = {0.5f};
  hand.node("Div", {"z", "root"}, {"a"}).node("Erf", {"a"}, {"b"}).node("Add", {"b", "one"}, {"c"});
  hand.node("Mul", {"z", "c"}, {"d"}).node("Mul", {"d", "half"}, {"y"});
  CHECK(types_of(hand.model) == "dense gelu ");
}

TEST_CASE("import: scores without softmax are classes, or numbers where one asks for it") {
  HandModel hand({-1, 6});
  hand.reals("m", {6, 3}).node("MatMul", {"x", "m"}, {"y"});
  CHECK(import_onnx(hand.model, false)->model.class_count == 3);
  CHECK(import_onnx(hand.model, true)->model.class_count == 0);
  hand.model.outputs[0].name = "p";
  hand.node("Softmax", {"y"}, {"p"}, {{"axis", whole_attribute(-1)}});
  CHECK(types_of(hand.model) == "dense ");
  CHECK(has(types_of(hand.model, true), "ends in a softmax"));
}

TEST_CASE("import: branches are joined, and what two take is not changed for one of them") {
  HandModel hand = small_conv();
  for (const char* name : {"s", "t", "mean", "variance"}) hand.reals(name, {3});
  // A residual block whose input goes on as it is: the normalisation can't become part of it.
  hand.node("BatchNormalization", {"c", "s", "t", "mean", "variance"}, {"n"});
  hand.node("Relu", {"n"}, {"r"}).node("Add", {"c", "r"}, {"a"});
  hand.node("Sigmoid", {"r"}, {"g"});
  hand.node("Concat", {"a", "g", "c"}, {"y"}, {{"axis", whole_attribute(-3)}});
  CHECK(types_of(hand.model) == "conv2d conv2d relu add sigmoid concat flatten ");
  const auto import = import_onnx(hand.model, false);
  REQUIRE(import.has_value());
  CHECK(import->model.layers[3].inputs == std::vector<uint32_t>{1, 3});
  CHECK(import->model.layers[4].inputs == std::vector<uint32_t>{3});
  CHECK(import->model.layers[5].inputs == std::vector<uint32_t>{4, 5, 1});
  CHECK(import->notes[0].ends_with("as a depthwise convolution of one tap"));
  CHECK(has(import_text(*import), "  takes add1, sigmoid1, conv2d1\n"));
}

TEST_CASE("import: what leads to no output is left out") {
  HandModel hand({-1, 6});
  hand.reals("m", {6, 3}).node("NonMaxSuppression", {"x"}, {"nowhere"});
  hand.node("MatMul", {"x", "m"}, {"y"}).node("Relu", {"nowhere"}, {"else"});
  CHECK(types_of(hand.model) == "dense ");
}

TEST_CASE("import: branches that do not fit are refused") {
  const auto joined = [](const std::string& op, Names inputs, int64_t axis = 1) {
    HandModel hand({-1, 4, 5});
    hand.reals("w", {4, 4, 1}).reals("v", {2, 4, 3}).reals("k", {1, 4, 5});
    hand.node("Conv", {"x", "w"}, {"a"}).node("Conv", {"x", "v"}, {"b"});
    hand.node("Transpose", {"a"}, {"t"}, {{"perm", wholes_attribute({0, 2, 1})}});
    hand.node(op, std::move(inputs), {"y"}, {{"axis", whole_attribute(axis)}});
    return types_of(hand.model);
  };
  CHECK(joined("Add", {"a", "x"}) == "conv1d add flatten ");
  CHECK(joined("Concat", {"a", "x"}) == "conv1d concat flatten ");
  CHECK(has(joined("Add", {"a", "b"}), "it joins rows of [4, 5] and [2, 3]"));
  CHECK(has(joined("Add", {"a", "t"}), "it joins rows of [4, 5] and [5, 4]"));
  CHECK(has(joined("Sum", {"a", "a"}), "it takes 'a' twice"));
  CHECK(has(joined("Sum", {"a", "x", "k"}), "it joins a constant and branches"));
  CHECK(has(joined("Concat", {"a", "x"}, 2), "axis 2: it joins along something else"));
  CHECK(has(joined("Concat", {"a", "x"}, 0), "axis 0: it joins along something else"));
  CHECK(has(joined("Concat", {"a", "x"}, 9), "axis 9: it joins along something else"));
  CHECK(has(joined("Max", {"a", "x"}), "it joins branches"));
  CHECK(has(joined("Add", {"a", "nothing"}), "it takes 'nothing', which no node before it gives"));
}

TEST_CASE("import: every node that can't be taken is named, with the reason") {
  HandModel hand = small_conv();
  hand.reals("v", {3, 3, 1, 1}).node("Conv", {"c", "v"}, {"d"}).node("Mul", {"c", "d"}, {"e"});
  hand.node("Relu", {"e"}, {"f"}).node("NonMaxSuppression", {"f"}, {"y"});
  const auto import = import_onnx(hand.model, false);
  REQUIRE(import.has_value());
  REQUIRE(import->refused.size() == 2);
  CHECK(import->refused[0].node == "Mul2");
  CHECK(has(import->refused[0].reason, "it joins branches; Add, Sum and Concat"));
  CHECK(import->refused[1].op == "NonMaxSuppression");
  const std::string text = import_text(*import);
  CHECK(has(text, "not supported: Mul2 (Mul)"));
  CHECK(has(text, "conv2d1"));
}

TEST_CASE(
    "import: what a layer can't do is refused: pads, windows, options, weights that do not fit") {
  const auto conv = [](std::map<std::string, OnnxAttribute, std::less<>> attributes) {
    HandModel hand({-1, 2, 5, 4});
    hand.reals("w", {3, 2, 3, 3}).node("Conv", {"x", "w"}, {"y"}, std::move(attributes));
    return types_of(hand.model);
  };
  CHECK(has(conv({{"pads", wholes_attribute({1, 0, 1, 0})}}), "pads differ"));
  CHECK(has(conv({{"strides", wholes_attribute({1, 2})}}), "strides differ"));
  CHECK(has(conv({{"strides", wholes_attribute({0, 0})}}), "stride or dilation is 0"));
  CHECK(has(conv({{"group", whole_attribute(2)}}), "do not fit"));
  CHECK(has(conv({{"pads", wholes_attribute({9, 9, 9, 9})}}), "layer of type conv2d"));
  HandModel gru({-1, 6, 3});
  gru.reals("w", {1, 15, 3}).reals("r", {1, 15, 5});
  gru.node("Transpose", {"x"}, {"t"}, {{"perm", wholes_attribute({1, 0, 2})}});
  gru.node("GRU", {"t", "w", "r"}, {"", "y"}, {{"hidden_size", whole_attribute(5)}});
  CHECK(has(types_of(gru.model), "linear_before_reset"));
  HandModel open({-1, -1, 5, 4});
  CHECK(has(types_of(open.model), "open"));
}

TEST_CASE("read: data in another file, sparse tensors and graphs in nodes are refused") {
  const auto refusal = [](auto fill) {
    ProtoWriter tensor;
    tensor.put(1, int64_t{2});
    tensor.put(2, int64_t{1});
    tensor.put(8, "weights");
    fill(tensor);
    ProtoWriter graph, model;
    graph.put(5, tensor);
    model.put(7, graph);
    const auto read = read_onnx(model.take());
    return read ? std::string() : read.error().message();
  };
  const float values[] = {1.0f, 2.0f}, broken[] = {1.0f, NAN};
  const auto raw = [](std::span<const float> floats) {
    return [=](ProtoWriter& writer) { writer.put(9, std::as_bytes(floats)); };
  };
  CHECK(refusal(raw(values)).empty());
  CHECK(has(refusal(raw(broken)), "'weights': a value is not finite"));
  CHECK(has(refusal(raw(std::span(values).first(1))), "4 bytes for 2 values"));
  CHECK(has(refusal([](ProtoWriter&) {}), "0 values for a shape of 2"));
  CHECK(has(refusal([](ProtoWriter& writer) { writer.put(14, int64_t{1}); }), "another file"));
  CHECK(has(refusal([](ProtoWriter& writer) { writer.put(1, int64_t{1} << 40); }), "more than"));
  CHECK(has(refusal([](ProtoWriter& writer) { writer.put(1, int64_t{-1}); }), "a dimension of -1"));
  CHECK(has(refusal([](ProtoWriter& writer) { writer.put(2, int64_t{10}); }), "type 10"));
}

TEST_CASE("read: every truncation and every changed byte of a model is an error or a model") {
  Random random(test::seed(), 61);
  const auto try_it = [](ByteSpan some) {
    if (const auto read = read_onnx(some)) static_cast<void>(import_onnx(*read, false));
  };
  for (const std::string_view net : {test::kSmallCells, test::kSmallGraph}) {
    const ModelSpec model = test::model_of(net);
    const std::vector<float> parameters = test::random_parameters(model, random);
    const Bytes bytes = write_onnx(export_onnx(model, {}, parameters));
    REQUIRE(read_onnx(bytes).has_value());
    for (size_t length = 0; length < bytes.size(); length += 1 + length / 64)
      try_it(ByteSpan(bytes).first(length));
    for (int round = 0; round < 1000; ++round) {
      Bytes changed = bytes;
      changed[static_cast<size_t>(random.below(bytes.size()))] =
          static_cast<std::byte>(random.below(256));
      try_it(changed);
    }
  }
}

TEST_SUITE_END();

}  // namespace paceline
