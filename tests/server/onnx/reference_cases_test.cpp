// Every case of ONNX's own test data whose operators are taken: what it says must come out.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "runtime/train/optimizer.h"
#include "runtime/train/trainer.h"
#include "server/onnx/import.h"
#include "tests/server/onnx/onnx_cases.h"

namespace paceline {
namespace {

using test::OnnxCase;

constexpr double kTolerance = 1e-4;  // as ONNX's own runner has it: 1e-3 relative, 1e-7 absolute

bool has_op(const OnnxModel& model, const std::string& op) {
  for (const OnnxNode& node : model.nodes)
    if (node.op == op) return true;
  return false;
}

// Inputs behind the first are weights.
OnnxModel with_constants(const OnnxCase& one) {
  OnnxModel model = one.model;
  for (size_t i = 1; i < model.inputs.size() && i < one.inputs.size(); ++i)
    model.constants[model.inputs[i].name] = one.inputs[i];
  if (!model.inputs.empty()) model.inputs.resize(1);
  model.outputs.resize(1);
  return model;
}

// A run needs parameters: multiplies every channel by 1, in front of a softmax, else at the end.
OnnxModel with_factors(OnnxModel model, const OnnxCase& one) {
  const bool front = has_op(model, "Softmax") || has_op(model, "LogSoftmax");
  const OnnxTensor& value = front ? one.inputs[0] : one.outputs[0];
  std::vector<int64_t> dims(value.dims.size() - 1, 1);
  dims[0] = value.dims[1];
  const auto count = static_cast<size_t>(dims[0]);
  model.constants["factors"] = real_tensor("factors", dims, std::vector<float>(count, 1.0f));
  OnnxNode node;
  node.op = "Mul";
  if (front) {
    for (OnnxNode& other : model.nodes)
      for (std::string& input : other.inputs)
        if (input == model.inputs[0].name) input = "scaled";
    node.inputs = {model.inputs[0].name, "factors"};
    node.outputs = {"scaled"};
    model.nodes.insert(model.nodes.begin(), node);
  } else {
    node.inputs = {model.outputs[0].name, "factors"};
    node.outputs = {"scaled"};
    model.nodes.push_back(node);
    model.outputs[0].name = "scaled";
  }
  return model;
}

// Several inputs become parts of one row, which matrices of zeros and ones pick from it.
OnnxCase with_one_input(const OnnxCase& one) {
  OnnxCase joined = one;
  OnnxModel& model = joined.model;
  if (one.inputs[0].dims.size() < 2 || one.inputs[0].count() == 0) return one;
  const int64_t rows = one.inputs[0].dims[0];
  int64_t width = 0;
  for (const OnnxTensor& input : one.inputs) {
    if (input.dims.size() < 2 || input.dims[0] != rows || !input.is_real) return one;
    width += static_cast<int64_t>(input.count()) / rows;
  }
  OnnxTensor all =
      real_tensor("all", {rows, width}, std::vector<float>(static_cast<size_t>(rows * width)));
  std::vector<OnnxNode> nodes;
  int64_t begin = 0;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    const OnnxTensor& input = one.inputs[i];
    const int64_t each = static_cast<int64_t>(input.count()) / rows;
    const std::string name = model.inputs[i].name;
    OnnxTensor pick = real_tensor("pick" + name, {width, each},
                                  std::vector<float>(static_cast<size_t>(width * each)));
    for (int64_t k = 0; k < each; ++k) {
      pick.reals[static_cast<size_t>((begin + k) * each + k)] = 1.0f;
      for (int64_t row = 0; row < rows; ++row)
        all.reals[static_cast<size_t>(row * width + begin + k)] =
            input.reals[static_cast<size_t>(row * each + k)];
    }
    OnnxTensor shape = whole_tensor("shape" + name, input.dims);
    shape.wholes[0] = 0;
    nodes.emplace_back();
    nodes.back().op = "MatMul";
    nodes.back().inputs = {"all", pick.name};
    nodes.back().outputs = {"flat" + name};
    nodes.emplace_back();
    nodes.back().op = "Reshape";
    nodes.back().inputs = {"flat" + name, shape.name};
    nodes.back().outputs = {name};
    model.constants[pick.name] = std::move(pick);
    model.constants[shape.name] = std::move(shape);
    begin += each;
  }
  model.nodes.insert(model.nodes.begin(), nodes.begin(), nodes.end());
  model.inputs = {{"all", OnnxType::kFloat, {-1, width}}};
  joined.inputs = {std::move(all)};
  return joined;
}

bool joins_inputs(const OnnxCase& one) {
  return one.inputs.size() > 1 && one.model.inputs.size() == one.inputs.size() &&
         one.model.nodes.size() == 1 &&
         (has_op(one.model, "Add") || has_op(one.model, "Sum") || has_op(one.model, "Concat"));
}

struct Outcome {
  bool ran = false;
  double off = 0;  // largest difference
  std::string reason;
};

std::vector<float> reals_of(const OnnxTensor& tensor) {
  if (tensor.is_real) return tensor.reals;
  return {tensor.wholes.begin(), tensor.wholes.end()};
}

Outcome run(const OnnxCase& one) {
  Outcome outcome;
  if (one.inputs.empty() || one.outputs.empty() || one.outputs[0].dims.size() < 2 ||
      one.inputs[0].dims.size() < 2)
    return outcome;
  OnnxModel model = with_constants(one);
  const bool softmax = has_op(model, "Softmax") || has_op(model, "LogSoftmax");
  auto import = import_onnx(model, !softmax);
  if (!import) {
    model = with_factors(model, one);
    import = import_onnx(model, !softmax);
  }
  if (!import) return {false, 0, import.error().message()};
  if (!import->refused.empty()) return {false, 0, import->refused[0].reason};
  const std::vector<float> features = reals_of(one.inputs[0]);
  const auto rows = static_cast<size_t>(features.size() / import->model.input_features());
  LossOptions loss;
  if (!softmax) loss.kind = LossKind::kMse;
  auto trainer = make_trainer(import->model, rows, "reference", loss);
  if (!trainer) return {false, 0, trainer.error().message()};
  std::vector<float> answers(rows * import->model.output_count);
  std::vector<float> scaled = features;
  REQUIRE((*trainer)->predict(import->parameters, scaled, answers).ok());
  outcome.ran = true;
  const std::vector<float>& expected = one.outputs[0].reals;
  if (expected.size() != answers.size()) return {true, 1e9, "another size"};
  for (size_t i = 0; i < answers.size(); ++i) {
    const double answer = static_cast<double>(answers[i]);
    const double given = has_op(model, "LogSoftmax") ? std::log(answer) : answer;
    const double wanted = static_cast<double>(expected[i]);
    outcome.off = std::max(outcome.off, std::abs(given - wanted) / std::max(1.0, std::abs(wanted)));
  }
  return outcome;
}

// What the tensors of an optimizer's case are, list by list: X, G and the state.
struct OptimizerCase {
  std::vector<float> x, g, first, second;
  std::vector<float> expected;
};

OptimizerCase joined(const OnnxCase& one, size_t lists) {
  OptimizerCase all;
  const size_t each = (one.inputs.size() - 2) / lists;
  std::vector<float>* into[] = {&all.x, &all.g, &all.first, &all.second};
  for (size_t i = 0; i < lists * each; ++i) {
    const std::vector<float>& part = one.inputs[2 + i].reals;
    into[i / each]->insert(into[i / each]->end(), part.begin(), part.end());
  }
  for (size_t i = 0; i < each; ++i)
    all.expected.insert(all.expected.end(), one.outputs[i].reals.begin(),
                        one.outputs[i].reals.end());
  return all;
}

// ONNX's step number 0 corrects no bias, as ours does not after many steps.
std::vector<float> stepped(const OnnxCase& one, OptimizerCase* all) {
  const OnnxNode& node = one.model.nodes[0];
  const bool adam = node.op == "Adam", adagrad = node.op == "Adagrad";
  OptimizerOptions options;
  options.kind = adam                                  ? OptimizerKind::kAdam
                 : adagrad                             ? OptimizerKind::kAdagrad
                 : node.text("mode", "") == "nesterov" ? OptimizerKind::kNesterov
                                                       : OptimizerKind::kSgd;
  *all = joined(one, adam ? 4 : 3);
  options.beta1 = adagrad ? 0.0f : node.real("alpha", 0);
  options.beta2 = node.real("beta", 0.999f);
  // test_adam_multiple was made with 1e-2, which its node does not say.
  options.epsilon = node.real("epsilon", adam ? 1e-2f : 0);
  options.weight_decay = node.real("norm_coefficient", 0);
  const size_t count = all->x.size();
  const ElementRange everything[] = {{0, count}};
  Optimizer optimizer(options, count, everything);
  OptimizerState state;
  state.steps = adam || adagrad ? 1u << 24 : 0;
  state.momentum = adagrad ? std::vector<float>(count) : all->first;
  state.squares = adam ? all->second : adagrad ? all->first : std::vector<float>();
  REQUIRE(optimizer.restore(state));
  std::vector<float> x = all->x;
  optimizer.step(all->g, one.inputs[0].reals[0], x);
  return x;
}

}  // namespace

TEST_SUITE_BEGIN("onnx/reference_cases");

TEST_CASE("import: each case of ONNX's test data that is taken gives what it should") {
  if (test::onnx_case_folder().empty()) {
    std::puts("skipped: no data (ONNX's test data; PACELINE_ONNX_TESTDATA)");
    return;
  }
  size_t total = 0, ran = 0;
  std::set<std::string> ops;
  for (const OnnxCase& one : test::onnx_cases()) {
    ++total;
    if (one.name.find("training_dropout") != std::string::npos) continue;  // random
    const Outcome outcome = run(joins_inputs(one) ? with_one_input(one) : one);
    if (std::getenv("PACELINE_ONNX_VERBOSE"))
      std::printf("%s %s %g %s\n", outcome.ran ? "ran" : "---", one.name.c_str(), outcome.off,
                  outcome.reason.c_str());
    if (!outcome.ran) continue;
    ++ran;
    for (const OnnxNode& node : one.model.nodes) ops.insert(node.op);
    INFO(one.name, " ", outcome.reason);
    CHECK(outcome.off < kTolerance);
  }
  std::printf("%zu of %zu cases ran, with %zu operators\n", ran, total, ops.size());
  CHECK(ran >= 100);
}

TEST_CASE("optimizer: Adam, Adagrad and Momentum step as ONNX's test data says") {
  if (test::onnx_case_folder().empty()) {
    std::puts("skipped: no data (ONNX's test data; PACELINE_ONNX_TESTDATA)");
    return;
  }
  size_t ran = 0;
  for (const OnnxCase& one : test::onnx_cases()) {
    const std::string& op = one.model.nodes.empty() ? std::string() : one.model.nodes[0].op;
    if (op != "Adam" && op != "Adagrad" && op != "Momentum") continue;
    INFO(one.name);
    REQUIRE(one.inputs[1].wholes.at(0) == 0);
    OptimizerCase all;
    const std::vector<float> x = stepped(one, &all);
    REQUIRE(x.size() == all.expected.size());
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(x[i] == doctest::Approx(all.expected[i]).epsilon(1e-5));
    ++ran;
  }
  std::printf("%zu cases of optimizers ran\n", ran);
  CHECK(ran >= 7);
}

TEST_SUITE_END();

}  // namespace paceline
