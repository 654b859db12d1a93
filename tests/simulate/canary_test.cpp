// A server that applies an update twice is found out. Built with its own copy of the server's
// rounds, in which one is (PACELINE_CANARY_APPLIES_TWICE).
#include <doctest/doctest.h>

#include "runtime/base/log.h"
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
}
