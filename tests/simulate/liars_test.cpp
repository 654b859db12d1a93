// Boards that send what they should not, through the production cores: the model stays what it is
// without them.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

constexpr size_t kWorkers = 8;
constexpr uint64_t kRounds = 250;

using Lie = std::function<void(std::span<float> gradient)>;

// An honest board whose gradients are changed on their way out.
class Liar : public LocalTrainer {
 public:
  Liar(std::unique_ptr<LocalTrainer> honest, Lie lie)
      : honest_(std::move(honest)), lie_(std::move(lie)) {}
  Result<float> gradient(std::span<const float> parameters, uint32_t rows,
                         std::span<float> gradient) override {
    Result<float> loss = honest_->gradient(parameters, rows, gradient);
    lie_(gradient);
    return loss;
  }
  Result<EvaluationCounts> evaluate(std::span<const float> parameters) override {
    return honest_->evaluate(parameters);
  }

 private:
  std::unique_ptr<LocalTrainer> honest_;
  Lie lie_;
};

// Zeros stay: pads are among them.
Lie times(float factor) {
  return [factor](std::span<float> gradient) {
    for (float& value : gradient)
      if (value != 0) value *= factor;
  };
}
Lie all_of(float constant) {
  return [constant](std::span<float> gradient) {
    for (float& value : gradient)
      if (value != 0) value = constant;
  };
}
// What it said first, for ever.
Lie replay() {
  return [first = std::vector<float>()](std::span<float> gradient) mutable {
    if (first.empty()) first.assign(gradient.begin(), gradient.end());
    std::ranges::copy(first, gradient.begin());
  };
}

struct Plan {
  const char* aggregate = "mean";
  CodecId codec = CodecId::kQ8;
  size_t liars = 0;
  Lie lie = {};
  size_t workers = kWorkers;
};

struct Outcome {
  double accuracy = 0;  // on the rows of all boards
  bool finite = true;
  uint64_t strikes = 0, left_out = 0;  // of the liars
};

Outcome train(const Plan& plan) {
  const ToyOptions options{.workers = plan.workers};
  FleetOptions fleet = test::toy_fleet(options);
  fleet.seed = test::seed();
  fleet.server.codec_up = plan.codec;
  fleet.server.aggregate = plan.aggregate;
  for (size_t i = 0; i < plan.liars; ++i)
    fleet.workers[i].factory = [honest = fleet.workers[i].factory,
                                lie = plan.lie](const std::string& text) {
      Result<LocalRun> run = honest(text);
      if (run) run->trainer = std::make_unique<Liar>(std::move(run->trainer), lie);
      return run;
    };
  std::unique_ptr<Fleet> world = Fleet::make(std::move(fleet)).value();
  REQUIRE(world->run(from_ms(600'000), [&] { return world->server().round() > kRounds; }));
  Outcome outcome;
  for (const float value : world->server().published())
    outcome.finite = outcome.finite && std::isfinite(value);
  const EvaluationCounts counts =
      test::toy_counts({.workers = kWorkers}, world->server().published());
  outcome.accuracy = static_cast<double>(counts.correct) / static_cast<double>(counts.rows);
  for (size_t i = 0; i < plan.liars; ++i) {
    outcome.strikes += world->server().members()[i].strikes;
    outcome.left_out += world->server().members()[i].left_out;
  }
  return outcome;
}

}  // namespace

TEST_SUITE("simulate/liars") {
  TEST_CASE("one board in eight that sends nonsense costs less than a point, by the plain mean") {
    const double without = train({.workers = kWorkers - 1}).accuracy;
    const struct {
      const char* what;
      Lie lie;
    } lies[] = {{"NaN", all_of(std::numeric_limits<float>::quiet_NaN())},
                {"1e30", all_of(1e30f)},
                {"the other way", times(-1)},
                {"a hundred times as long", times(100)},
                {"zero", all_of(0)}};
    for (const auto& one : lies) {
      const Outcome outcome = train({.liars = 1, .lie = one.lie});
      CAPTURE(one.what);
      CAPTURE(without);
      CHECK(outcome.finite);
      CHECK(outcome.accuracy > without - 0.01);
    }
  }

  TEST_CASE(
      "two boards in eight that lie cost less than a point by every rule, and ruin the mean") {
    const double without = train({.workers = kWorkers - 2}).accuracy;
    const struct {
      const char* what;
      Lie lie;
    } lies[] = {{"the other way", times(-1)},
                {"the other way, three times as long", times(-3)},
                {"the same for ever", replay()}};
    for (const auto& one : lies)
      for (const char* rule : {"median", "trimmed:2", "krum:2", "clip"}) {
        const Outcome outcome = train({.aggregate = rule, .liars = 2, .lie = one.lie});
        CAPTURE(one.what);
        CAPTURE(rule);
        CAPTURE(without);
        CHECK(outcome.accuracy > without - 0.01);
      }
    CHECK(train({.liars = 2, .lie = times(-3)}).accuracy < without - 0.1);
  }

  TEST_CASE("krum and clipping hold where updates are signs") {
    const double without = train({.codec = CodecId::kS1r, .workers = kWorkers - 2}).accuracy;
    for (const char* rule : {"krum:2", "clip"}) {
      const Outcome outcome =
          train({.aggregate = rule, .codec = CodecId::kS1r, .liars = 2, .lie = times(-3)});
      CAPTURE(rule);
      CAPTURE(without);
      CHECK(outcome.accuracy > without - 0.01);
    }
  }

  TEST_CASE("krum names whom it leaves out, and that is the liar") {
    const Outcome outcome = train({.aggregate = "krum:1", .liars = 1, .lie = times(-3)});
    CHECK(outcome.left_out > kRounds * 9 / 10);
  }
}
