// A server that applies an update twice is found out. Built with its own copy of the server's
// rounds, in which one is (PACELINE_CANARY_APPLIES_TWICE).
#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "simulate/experiment_run.h"
#include "simulate/invariants.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;

TEST_SUITE("simulate/canary") {
  TEST_CASE("an update that is applied twice breaks an invariant at that event") {
    set_log_level(LogLevel::kOff);
    for (const char* pace : {"bsp", "asp", "compat"}) {
      FleetOptions options = test::toy_fleet({.workers = 3, .rows_per_worker = 64});
      options.server.pace = pace;
      const std::unique_ptr<Fleet> fleet = Fleet::make(std::move(options)).value();
      FleetInvariants invariants(*fleet);
      fleet->run(60'000'000, [&] { return !invariants.hold(); });
      CAPTURE(pace);
      CHECK(invariants.broken().find("is applied twice") != std::string::npos);
      CHECK(fleet->server().version() <= 24);
    }
  }

  TEST_CASE("a run that breaks an invariant ends there, and tells seed and time; again the same") {
    set_log_level(LogLevel::kOff);
    const Experiment experiment =
        parse_experiment(
            "[experiment]\nseconds = 30\nseed = 3\n[run.model]\ninput = [8]\nclasses = 3\n"
            "[[run.layer]]\ntype = \"dense\"\nunits = 3\n[run.communication]\n"
            "freq = \"fixed:2\"\n[data]\nfile = \"-\"\ncontrol_rows = 60\n"
            "[[worker]]\ncount = 3\nstep_sigma = 0.1\n",
            "canary.toml", ".")
            .value();
    const RunPlan plan = plan_run(experiment, 0).value();
    ExperimentData data;
    data.rows = test::toy_data({.rows_per_worker = 600}, 0)->dataset;
    const std::unique_ptr<RunRecord> record = run_plan(plan, data, {}).value();
    CHECK(record->broken.starts_with("seed 3, "));
    CHECK(record->broken.find("is applied twice") != std::string::npos);
    CHECK(record->seconds < 5);
    CHECK(run_plan(plan, data, {}).value()->broken == record->broken);
  }
}
