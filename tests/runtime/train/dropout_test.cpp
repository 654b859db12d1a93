// What dropout promises: the same mask forward and back, the right share, silence in evaluation.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr size_t kWidth = 400;
constexpr size_t kRows = 16;

// Inputs of ones through dropout into a layer of two units: the gradient of a unit's weights is,
// but for one factor a row, the mask.
std::string dropout_net(const char* rate) {
  return "[model]\ninput = [400]\nclasses = 2\n[[layer]]\ntype = 'dropout'\nrate = " +
         std::string(rate) + "\n[[layer]]\ntype = 'dense'\nunits = 2\n";
}

struct Learner {
  ModelSpec spec;
  std::unique_ptr<Trainer> trainer;
  std::vector<float> parameters, gradient;
  std::vector<float> features = std::vector<float>(kRows * kWidth, 1.0f);
  std::vector<int32_t> labels = std::vector<int32_t>(kRows, 1);

  explicit Learner(const std::string& toml, const char* backend = "reference")
      : spec(test::model_of(toml)),
        trainer(std::move(*make_trainer(spec, kRows, backend))),
        parameters(test::parameter_floats(spec)),
        gradient(parameters.size()) {
    init_parameters(spec, 1, parameters);
  }
  // Of a batch of so many rows.
  std::vector<float> step(size_t rows) {
    REQUIRE(trainer
                ->gradient(parameters, std::span(features).first(rows * kWidth),
                           std::span(labels).first(rows), gradient)
                .has_value());
    return gradient;
  }
};

}  // namespace

TEST_SUITE_BEGIN("train/dropout");

TEST_CASE("gradient: the share that is dropped is the rate, the rest is scaled by 1 / (1 - rate)") {
  Learner learner(dropout_net("0.25"));
  learner.trainer->seed_noise(test::seed());
  uint64_t dropped = 0, values = 0;
  for (int step = 0; step < 200; ++step) {
    const std::vector<float> gradient = learner.step(1);
    const float unit =
        gradient[static_cast<size_t>(learner.spec.layout.tensors()[1].offset)];  // bias
    for (size_t i = 0; i < kWidth; ++i, ++values) {
      if (gradient[i] == 0.0f)
        ++dropped;
      else
        REQUIRE(gradient[i] == doctest::Approx(unit / 0.75f));
    }
  }
  // Five standard deviations of a share of 80,000 draws.
  const double share = static_cast<double>(dropped) / static_cast<double>(values);
  CHECK(std::abs(share - 0.25) < 5 * std::sqrt(0.25 * 0.75 / static_cast<double>(values)));
}

TEST_CASE("gradient: one key gives one sequence of masks, another key another; steps differ") {
  Learner a(dropout_net("0.5")), b(dropout_net("0.5"));
  a.trainer->seed_noise(7);
  b.trainer->seed_noise(7);
  const std::vector<float> first = a.step(3);
  CHECK(b.step(3) == first);
  CHECK(a.step(3) != first);
  b.trainer->seed_noise(8);
  CHECK(b.step(3) != first);
  b.trainer->seed_noise(7);
  CHECK(b.step(3) == first);
}

TEST_CASE("gradient: forward and backward drop the same, on every backend") {
  // A row's loss falls by rate * |gradient|^2 along its gradient, if mask and gradient belong
  // together; with another mask in the backward pass it would not.
  const std::string toml =
      "[model]\ninput = [400]\nclasses = 2\n[[layer]]\ntype = 'dense'\nunits = 30\n"
      "[[layer]]\ntype = 'tanh'\n[[layer]]\ntype = 'dropout'\n"
      "[[layer]]\ntype = 'dense'\nunits = 2\n";
  for (const std::string& backend : backends()) {
    Learner learner(toml, backend.c_str());
    for (float& value : learner.features) value = 0.01f;
    const auto loss_and_gradient = [&] {
      learner.trainer->seed_noise(5);
      return *learner.trainer->gradient(learner.parameters, learner.features, learner.labels,
                                        learner.gradient);
    };
    const double before = static_cast<double>(loss_and_gradient());
    constexpr float kStep = 1e-2f;
    double square = 0.0;
    for (size_t i = 0; i < learner.parameters.size(); ++i) {
      square += static_cast<double>(learner.gradient[i]) * static_cast<double>(learner.gradient[i]);
      learner.parameters[i] -= kStep * learner.gradient[i];
    }
    const double after = static_cast<double>(loss_and_gradient());
    INFO(backend);
    CHECK(before - after == doctest::Approx(static_cast<double>(kStep) * square).epsilon(0.03));
  }
}

TEST_CASE("evaluate and predict: nothing is dropped") {
  Learner learner(dropout_net("0.9")), plain(dropout_net("0.0"));
  EvaluationCounts counts, expected;
  REQUIRE(learner.trainer->evaluate(learner.parameters, learner.features, learner.labels, &counts)
              .ok());
  REQUIRE(plain.trainer->evaluate(plain.parameters, plain.features, plain.labels, &expected).ok());
  CHECK(counts.loss_fixed16 == expected.loss_fixed16);
  std::vector<float> p(2 * kRows), q(2 * kRows);
  REQUIRE(learner.trainer->predict(learner.parameters, learner.features, p).ok());
  REQUIRE(plain.trainer->predict(plain.parameters, plain.features, q).ok());
  CHECK(p == q);
}

TEST_SUITE_END();

}  // namespace paceline
