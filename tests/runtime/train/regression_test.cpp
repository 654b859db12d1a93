// Nets that give numbers: what they learn, and how that is counted.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/train/training.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr size_t kInputs = 4, kRows = 256;

std::string run_with(std::string_view training, std::string_view model = "outputs = 1") {
  return "[model]\ninput = [4]\n" + std::string(model) +
         "\n[[layer]]\ntype = 'dense'\nunits = 1\n[training]\n" + std::string(training);
}

// Rows of inputs that hang together, and a noisy linear answer.
test::Batch linear_rows(Random& random) {
  test::Batch batch;
  for (size_t row = 0; row < kRows; ++row) {
    float x[kInputs], answer = 0.3f;
    for (size_t i = 0; i < kInputs; ++i) {
      x[i] = random.symmetric() + (i > 0 ? 0.5f * x[i - 1] : 0.0f);
      answer += x[i] * (static_cast<float>(i) - 1.2f);
    }
    batch.features.insert(batch.features.end(), x, x + kInputs);
    batch.numbers.push_back(answer + 0.4f * random.symmetric());
  }
  return batch;
}

// Least squares by the normal equations, Gauss-Jordan; weights, then the bias.
std::vector<double> least_squares(const test::Batch& batch) {
  constexpr size_t kUnknowns = kInputs + 1;
  double a[kUnknowns][kUnknowns + 1] = {};
  for (size_t row = 0; row < kRows; ++row) {
    double x[kUnknowns + 1];
    for (size_t i = 0; i < kInputs; ++i)
      x[i] = static_cast<double>(batch.features[row * kInputs + i]);
    x[kInputs] = 1;
    x[kUnknowns] = static_cast<double>(batch.numbers[row]);
    for (size_t i = 0; i < kUnknowns; ++i)
      for (size_t j = 0; j <= kUnknowns; ++j) a[i][j] += x[i] * x[j];
  }
  for (size_t pivot = 0; pivot < kUnknowns; ++pivot)
    for (size_t i = 0; i < kUnknowns; ++i) {
      if (i == pivot) continue;
      const double factor = a[i][pivot] / a[pivot][pivot];
      for (size_t j = pivot; j <= kUnknowns; ++j) a[i][j] -= factor * a[pivot][j];
    }
  std::vector<double> solution;
  for (size_t i = 0; i < kUnknowns; ++i) solution.push_back(a[i][kUnknowns] / a[i][i]);
  return solution;
}

EvaluationCounts evaluated(std::span<const float> outputs, const std::vector<float>& targets,
                           const LossOptions& loss) {
  const ModelSpec spec =
      test::model_of("[model]\ninput = [1]\noutputs = 1\n[[layer]]\ntype = 'dense'\nunits = 1\n");
  std::vector<float> parameters(test::parameter_floats(spec));
  parameters[0] = 1;  // the output is the input
  EvaluationCounts counts;
  auto trainer = *make_trainer(spec, 2, "reference", loss);
  for (size_t row = 0; row < targets.size(); ++row) {
    const float target[] = {targets[row]};
    REQUIRE(trainer->evaluate(parameters, outputs.subspan(row, 1), target, &counts).ok());
  }
  return counts;
}

}  // namespace

TEST_SUITE_BEGIN("train/regression");

TEST_CASE("mse: a net of one layer learns the least squares solution") {
  Random random(test::seed(), 1);
  const test::Batch batch = linear_rows(random);
  const RunSpec run = *parse_run(run_with("loss = 'mse'\n"));
  std::vector<float> parameters(test::parameter_floats(run.model)), gradient(parameters.size());
  auto trainer = *make_trainer(run.model, kRows, "reference", run.training.loss);
  for (int step = 0; step < 2000; ++step) {
    REQUIRE(trainer->gradient(parameters, batch.features, batch.numbers, gradient).has_value());
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] -= 0.3f * gradient[i];
  }
  const std::vector<double> exact = least_squares(batch);
  const std::span<const TensorSpec> tensors = run.model.layout.tensors();
  for (size_t i = 0; i <= kInputs; ++i) {
    const TensorSpec& tensor = tensors[i < kInputs ? 0 : 1];
    const float learnt = parameters[static_cast<size_t>(tensor.offset) + (i < kInputs ? i : 0)];
    CHECK(static_cast<double>(learnt) == doctest::Approx(exact[i]).epsilon(1e-4));
  }
}

TEST_CASE("evaluate: of numbers, correct is the rows whose variance is explained") {
  LossOptions mse, huber;
  mse.kind = LossKind::kMse;
  huber.kind = LossKind::kHuber;
  // Errors 0, 1, -3, 0.5 of a target with variance 1.
  const std::vector<float> outputs = {1, 2, -1, 0.5f}, targets = {1, 1, 2, 0};
  const EvaluationCounts counts = evaluated(outputs, targets, mse);
  CHECK(counts.rows == 4);
  CHECK(counts.correct == 0);  // worse than the mean
  CHECK(counts.loss_fixed16 == (1 << 16) + 9 * (1 << 16) + (1 << 14));
  CHECK(evaluated(outputs, targets, huber).loss_fixed16 == (1 << 15) + 5 * (1 << 15) + (1 << 13));
  CHECK(evaluated(outputs, targets, huber).squares_fixed16 == counts.squares_fixed16);
  const std::vector<float> near = {1, 1.5f, 2, 0.5f};
  CHECK(evaluated(near, targets, mse).correct == 4);  // 4 - 0.25 - 0.25, rounded
  CHECK(evaluated(near, {1, 1, 2, -0.5f}, mse).correct == 3);
  CHECK(evaluated(targets, targets, huber).correct == 4);
  const std::vector<float> broken = {NAN, 1e30f, 1, 1};
  CHECK(evaluated(broken, targets, mse).loss_fixed16 > 2 * (64ull * 65536 - 1));
  CHECK(evaluated(broken, targets, mse).correct == 0);
}

TEST_CASE("parse_run: classes and numbers have losses of their own, and keys") {
  const auto error_of = [](const std::string& text) {
    const auto run = parse_run(text);
    return run ? std::string() : run.error().message();
  };
  const auto says = [](const std::string& text, std::string_view words) {
    INFO(text);
    CHECK(text.find(words) != std::string::npos);
  };
  CHECK(parse_run(run_with("loss = 'huber'\nhuber_delta = 0.5\n"))->training.loss.huber_delta ==
        0.5f);
  says(error_of(run_with("")), "the model gives numbers, so it needs loss = \"mse\" or \"huber\"");
  says(error_of(run_with("loss = 'hubber'\n")), "unknown loss 'hubber'; did you mean 'huber'?");
  says(error_of(run_with("loss = 'mse'\nhuber_delta = 1\n")), "loss mse has no 'huber_delta'");
  says(error_of(run_with("loss = 'mse'\nlabel_smoothing = 0.1\n")), "has no 'label_smoothing'");
  says(error_of(run_with("loss = 'mse'\n", "outputs = 2")), "each of the 2 numbers");
  says(error_of(run_with("loss = 'mse'\n", "outputs = 1\nclasses = 2")), "leave one out");
  says(error_of("[model]\ninput = [4]\nclasses = 2\n[[layer]]\ntype = 'dense'\nunits = 2\n"
                "[training]\nloss = 'mse'\n"),
       "loss mse is of numbers; give model.outputs in place of model.classes");
}

TEST_CASE("make_trainer: a loss that the model does not fit is an error, and so are odd batches") {
  const RunSpec run = *parse_run(run_with("loss = 'mse'\n"));
  CHECK(make_trainer(run.model, 4, "reference").error().message() ==
        "the model gives numbers, loss softmax is of classes");
  auto trainer = *make_trainer(run.model, 4, "reference", run.training.loss);
  std::vector<float> parameters(test::parameter_floats(run.model));
  EvaluationCounts counts;
  const std::vector<int32_t> labels = {0};
  CHECK_FALSE(trainer->evaluate(parameters, std::vector<float>(4), labels, &counts).ok());
  CHECK_FALSE(
      trainer->evaluate(parameters, std::vector<float>(4), std::vector<float>(2), &counts).ok());
}

TEST_SUITE_END();

}  // namespace paceline
