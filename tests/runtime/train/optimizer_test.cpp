#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/train/training.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

// The textbook formulas in double, an element at a time.
struct Textbook {
  OptimizerOptions o;
  double m = 0, v = 0;
  int t = 0;

  double step(double w, double g, double rate, bool is_weight) {
    const double b1 = static_cast<double>(o.beta1), b2 = static_cast<double>(o.beta2);
    const double decay = is_weight ? static_cast<double>(o.weight_decay) : 0.0;
    const double epsilon = static_cast<double>(o.epsilon);
    ++t;
    const double warm = std::min(1.0, t / 10.0);
    if (o.kind == OptimizerKind::kAdamw)
      w -= rate * decay * w;
    else
      g += decay * w;
    const bool sums = o.kind == OptimizerKind::kAdagrad;
    v = sums ? v + g * g : b2 * v + (1 - b2) * g * g;
    const double root = std::sqrt(sums ? v : v / (1 - std::pow(b2, t))) + epsilon;
    switch (o.kind) {
      case OptimizerKind::kSgd:
        m = b1 * m + g;
        return w - rate * m;
      case OptimizerKind::kNesterov:
        m = b1 * m + g;
        return w - rate * (g + b1 * m);
      case OptimizerKind::kAdam:
      case OptimizerKind::kAdamw:
        m = b1 * m + (1 - b1) * g;
        return w - warm * rate * m / (1 - std::pow(b1, t)) / root;
      case OptimizerKind::kRmsprop:
      case OptimizerKind::kAdagrad:
        m = b1 * m + g / root;
        return w - warm * rate * m;
    }
    return 0;
  }
};

OptimizerOptions random_options(OptimizerKind kind, Random& random) {
  OptimizerOptions options;
  options.kind = kind;
  options.beta1 = 0.95f * static_cast<float>(random.unit());
  options.beta2 = 0.9f + 0.0999f * static_cast<float>(random.unit());
  options.epsilon = random.below(2) == 0 ? 1e-8f : 1e-3f;
  if (random.below(2) == 0) options.weight_decay = 0.2f * static_cast<float>(random.unit());
  return options;
}

constexpr OptimizerKind kKinds[] = {OptimizerKind::kSgd,     OptimizerKind::kNesterov,
                                    OptimizerKind::kAdam,    OptimizerKind::kAdamw,
                                    OptimizerKind::kRmsprop, OptimizerKind::kAdagrad};

}  // namespace

TEST_SUITE_BEGIN("train/optimizer");

TEST_CASE("step: every optimizer follows its formula in double, decay touching weights alone") {
  Random random(test::seed(), 2);
  for (const OptimizerKind kind : kKinds)
    for (int round = 0; round < 8; ++round) {
      constexpr size_t kCount = 37;
      const ElementRange weights[] = {{3, 10}, {10, 20}, {30, 33}};
      const OptimizerOptions options = random_options(kind, random);
      Optimizer optimizer(options, kCount, weights);
      std::vector<Textbook> exact(kCount, Textbook{options});
      std::vector<float> w(kCount), g(kCount);
      std::vector<double> expected(kCount);
      for (size_t i = 0; i < kCount; ++i)
        expected[i] = static_cast<double>(w[i] = random.symmetric());
      for (int step = 0; step < 40; ++step) {
        for (float& value : g) value = random.symmetric();
        optimizer.step(g, 0.01f, w);
        for (size_t i = 0; i < kCount; ++i) {
          const bool is_weight = (i >= 3 && i < 20) || (i >= 30 && i < 33);
          expected[i] = exact[i].step(expected[i], static_cast<double>(g[i]), 0.01, is_weight);
          INFO(optimizer_names()[static_cast<size_t>(kind)], " step ", step, " element ", i);
          REQUIRE(std::abs(static_cast<double>(w[i]) - expected[i]) < 2e-5);
        }
      }
    }
}

TEST_CASE("step: a gradient above the clip counts as one of that norm, others as they are") {
  for (const float norm : {0.5f, 2.0f, 1e10f}) {
    Optimizer clipped({.beta1 = 0, .clip = 1}, 2), plain({.beta1 = 0}, 2);
    std::vector<float> a(2, 0.0f), b(2, 0.0f);
    const float length = norm > 1 ? 1.0f : norm;
    const std::vector<float> g = {0.6f * norm, -0.8f * norm};
    const std::vector<float> shorter = {0.6f * length, -0.8f * length};
    clipped.step(g, 1.0f, a);
    plain.step(shorter, 1.0f, b);
    for (size_t i = 0; i < 2; ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-6));
  }
}

TEST_CASE("step: squares without gradient end at +0, and no weight becomes non-finite") {
  for (const OptimizerKind kind : kKinds) {
    Optimizer optimizer({.kind = kind, .beta2 = 0.5f, .epsilon = 1e-12f}, 4);
    std::vector<float> w(4, 1.0f), g = {1.0f, -1e-20f, 0x1p-140f, 0.0f};
    for (int step = 0; step < 400; ++step) {
      optimizer.step(g, 0.1f, w);
      for (const float v : optimizer.state().squares) REQUIRE((v == 0.0f || v >= 0x1p-100f));
      for (const float value : w) REQUIRE(std::isfinite(value));
      g[0] = 0.0f;
    }
    for (const float v : optimizer.state().squares)
      CHECK((kind == OptimizerKind::kAdagrad || v == 0.0f));
  }
}

TEST_CASE("restore: goes on to the bit; what does not fit is dropped") {
  Random random(test::seed(), 3);
  for (const OptimizerKind kind : kKinds) {
    const OptimizerOptions options = random_options(kind, random);
    Optimizer first(options, 5), second(options, 5);
    std::vector<float> w(5, 0.5f), g(5);
    const auto step = [&](Optimizer& optimizer, std::vector<float>& at) {
      for (size_t i = 0; i < 5; ++i) g[i] = static_cast<float>(i) - 1.7f + at[i];
      optimizer.step(g, 0.01f, at);
    };
    for (int i = 0; i < 7; ++i) step(first, w);
    CHECK(second.restore(first.state()));
    std::vector<float> copy = w;
    for (int i = 0; i < 20; ++i) {
      step(first, w);
      step(second, copy);
      REQUIRE(copy == w);
    }
    OptimizerState state = first.state();
    state.momentum.pop_back();
    CHECK_FALSE(second.restore(state));
    CHECK(second.state().steps == 0);
    CHECK(second.momentum()[0] == 0.0f);
    state = first.state();
    state.squares.assign(5, -1.0f);
    CHECK_FALSE(second.restore(state));
  }
}

TEST_CASE("parse_run: an optimizer's keys, and no key that nothing would read") {
  const auto run = [](const std::string& keys) {
    return parse_run("[model]\ninput = [4]\nclasses = 2\n[[layer]]\ntype = 'dense'\nunits = 2\n" +
                     ("[training]\n" + keys));
  };
  const RunSpec spec = run("optimizer = 'adamw'\nbeta1 = 0.8\nbeta2 = 0.99\nclip = 5\n").value();
  CHECK(spec.training.optimizer.kind == OptimizerKind::kAdamw);
  CHECK(spec.training.optimizer.weight_decay == 0.01f);
  CHECK(spec.training.optimizer.clip == 5.0f);
  CHECK(make_optimizer(spec).beta() == 0.8f);
  CHECK(make_optimizer(run("").value()).beta() == 0.9f);
  const auto refusal = [&](const std::string& keys) { return run(keys).error().message(); };
  CHECK(refusal("optimizer = 'adma'\n") ==
        "run:8:13: unknown optimizer 'adma'; did you mean 'adam'?");
  CHECK(refusal("optimizer = 'adam'\nmomentum = 0.9\n") ==
        "run:9:12: optimizer adam has no 'momentum'; give beta1 instead");
  CHECK(refusal("beta2 = 0.9\n").find("optimizer sgd has no 'beta2'") != std::string::npos);
  CHECK(refusal("optimizer = 'adagrad'\nbeta2 = 0.9\n").find("has no 'beta2'") !=
        std::string::npos);
  CHECK(refusal("optimizer = 'rmsprop'\nbeta1 = 0.9\n").find("give momentum instead") !=
        std::string::npos);
  CHECK(refusal("class_weights = [1, 2, 3]\n").find("3 class_weights for 2 classes") !=
        std::string::npos);
  CHECK(refusal("clip = -1\n").find("clip") != std::string::npos);
}

TEST_CASE("step: m = beta m + g, w = w - rate m, to the bit, for every length") {
  Random random(test::seed(), 1);
  for (size_t count = 0; count < 70; ++count) {
    Optimizer sgd({}, count);
    std::vector<float> w(count), m(count, 0.0f), expected(count), g(count);
    for (size_t i = 0; i < count; ++i) expected[i] = w[i] = random.symmetric();
    for (int step = 0; step < 4; ++step) {
      for (float& value : g) value = random.symmetric();
      sgd.step(g, 0.05f, w);
      for (size_t i = 0; i < count; ++i) {
        volatile float product = 0.9f * m[i];
        m[i] = product + g[i];
        product = 0.05f * m[i];
        expected[i] -= product;
      }
      REQUIRE(w == expected);
    }
  }
}

TEST_CASE("step: momentum without gradient ends at +0, never subnormal") {
  Optimizer sgd({.beta1 = 0.5f}, 3);
  std::vector<float> w(3, 1.0f), g = {1.0f, -1.0f, 0.0f};
  sgd.step(g, 0.1f, w);
  g.assign(3, 0.0f);
  for (int step = 0; step < 200; ++step) {
    sgd.step(g, 0.1f, w);
    for (float m : sgd.momentum()) REQUIRE((m == 0.0f || std::abs(m) >= 0x1p-90f));
  }
  for (float m : sgd.momentum()) CHECK(!std::signbit(m));
}

TEST_CASE("decay: multiplies by beta to the number of missed steps; drop: forgets") {
  Optimizer sgd({.beta1 = 0.5f}, 2);
  sgd.momentum()[0] = 8.0f;
  sgd.momentum()[1] = -4.0f;
  sgd.decay(3);
  CHECK(sgd.momentum()[0] == 1.0f);
  CHECK(sgd.momentum()[1] == -0.5f);
  sgd.decay(UINT32_MAX);
  CHECK(sgd.momentum()[0] == 0.0f);
  sgd.momentum()[0] = 1.0f;
  sgd.drop();
  CHECK(sgd.momentum()[0] == 0.0f);
}

TEST_SUITE_END();

}  // namespace paceline
