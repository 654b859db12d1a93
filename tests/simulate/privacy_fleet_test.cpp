// Boards whose updates carry noise, through the production cores.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

FleetOptions private_fleet(const ToyOptions& options, const char* privacy) {
  FleetOptions fleet = test::toy_fleet(options);
  fleet.seed = test::seed();
  fleet.server.run_text += privacy;
  fleet.server.run = parse_run(fleet.server.run_text).value();
  return fleet;
}

double accuracy(const ToyOptions& options, std::span<const float> model) {
  const EvaluationCounts counts = test::toy_counts(options, model);
  return static_cast<double>(counts.correct) / static_cast<double>(counts.rows);
}

// What private boards were heard to say.
struct Watch {
  uint64_t exchanges = 0;
  bool told = false;  // something without noise
};

}  // namespace

TEST_SUITE("simulate/privacy") {
  TEST_CASE("eight boards with noise learn, and say nothing without noise") {
    const ToyOptions options{.workers = 8, .momentum = 0.0};
    FleetOptions plan = private_fleet(options, "[privacy]\nclip = 0.1\nnoise = 1\n");
    plan.server.freq = "fixed:8";
    plan.server.codec_up = CodecId::kS1r;
    auto watch = std::make_shared<Watch>();
    plan.tamper = [watch](Envelope* envelope) {
      const auto* exchange = std::get_if<Exchange>(&envelope->message);
      if (exchange == nullptr) return;
      ++watch->exchanges;
      watch->told = watch->told || exchange->training_loss != 0 || !exchange->evaluations.empty() ||
                    !exchange->statistics.empty();
    };
    std::unique_ptr<Fleet> world = Fleet::make(std::move(plan)).value();
    const double before = accuracy(options, world->server().published());
    REQUIRE(world->run(from_ms(600'000), [&] { return world->server().round() > 100; }));
    const double after = accuracy(options, world->server().published());
    MESSAGE("accuracy ", before, " -> ", after, ", epsilon ", world->worker(0).spent_epsilon());
    CHECK(after > 0.7);
    CHECK(watch->exchanges >= 8 * 100);
    CHECK_FALSE(watch->told);
  }

  TEST_CASE("boards with more rows weigh no more") {
    FleetOptions plan = private_fleet({.workers = 3}, "[privacy]\nclip = 0.1\nnoise = 0.3\n");
    plan.workers[0].training_rows = 100;
    std::unique_ptr<Fleet> world = Fleet::make(std::move(plan)).value();
    REQUIRE(world->run(from_ms(600'000), [&] { return world->server().round() > 3; }));
    for (const Member& member : world->server().members()) CHECK(member.weight == 1.0f);
  }

  TEST_CASE("the fleet ends in order when all have spent what they may") {
    FleetOptions plan =
        private_fleet({.workers = 3}, "[privacy]\nclip = 0.1\nnoise = 2\nepsilon_max = 20\n");
    std::unique_ptr<Fleet> world = Fleet::make(std::move(plan)).value();
    const auto all_left = [&] {
      for (size_t i = 0; i < world->worker_count(); ++i)
        if (world->worker(i).activity() != Activity::kStopped) return false;
      return true;
    };
    REQUIRE(world->run(from_ms(600'000), all_left));
    for (size_t i = 0; i < world->worker_count(); ++i) {
      CHECK(world->worker(i).failure().ok());
      CHECK(world->worker(i).spent_epsilon() <= 20);
      CHECK(world->worker(i).spent_epsilon() > 18);
    }
    for (const Member& member : world->server().members()) CHECK(member.left);
  }
}
