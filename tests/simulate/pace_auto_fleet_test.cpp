// pace = "auto" in the production server and workers: rules take turns in the middle of a run.
#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "simulate/invariants.h"
#include "tests/simulate/ledger.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::kMinute;

namespace {

// Five boards of which one takes so many times as long; exchanges are cheap.
FleetOptions uneven_fleet(TimeUs slow_step_us) {
  FleetOptions options = test::toy_fleet({.workers = 5});
  options.server.pace = "auto";
  options.server.freq = "fixed:4";
  options.server.codec_up = options.server.codec_down = CodecId::kQ8;
  options.server.min_workers = 1;
  options.faults.delay_us = 100;
  options.workers.back().step_us = slow_step_us;
  return options;
}

}  // namespace

TEST_SUITE("simulate/pace_auto") {
  TEST_CASE("equal boards keep compat, and the bytes are compat's") {
    const auto checksum_after = [](const char* pace) {
      FleetOptions options = uneven_fleet(5'000);
      options.server.pace = pace;
      std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
      REQUIRE(fleet->run(kMinute, [&] { return fleet->server().version() >= 60; }));
      return fleet->server().checksum();
    };
    CHECK(checksum_after("auto") == checksum_after("compat"));
  }

  TEST_CASE("one board of hundred times the step: groups are tried, and what came of it is told") {
    set_log_level(LogLevel::kOff);
    std::unique_ptr<Fleet> fleet = Fleet::make(uneven_fleet(500'000)).value();
    FleetInvariants invariants(*fleet);
    REQUIRE(fleet->run(kMinute, [&] {
      REQUIRE_MESSAGE(invariants.hold(), invariants.broken());
      return fleet->server().pace_name() == "lsp:2";
    }));
    CHECK_FALSE(fleet->server().directive().elastic);
    // The model is as good as it gets by then, or not: both outcomes are told, and it goes on.
    REQUIRE(fleet->run(fleet->now() + kMinute, [&] {
      REQUIRE_MESSAGE(invariants.hold(), invariants.broken());
      return fleet->server().pace_reason().find("was predicted") != std::string::npos;
    }));
    CHECK(test::toy_loss({.workers = 5}, fleet->server().published()) < 0.75);

    const Bytes state = fleet->server().save();
    const std::string rule = fleet->server().pace_name();
    REQUIRE(fleet->restart_server(state, true).ok());
    CHECK(fleet->server().pace_name() == rule);
    CHECK(fleet->server().directive().elastic == (rule == "compat"));
    const uint64_t before = fleet->server().version();
    REQUIRE(fleet->run(fleet->now() + kMinute,
                       [&] { return fleet->server().version() > before + 50; }));
  }

  TEST_CASE("when all boards are as slow as the slowest, compat comes back") {
    set_log_level(LogLevel::kOff);
    FleetOptions options = uneven_fleet(500'000);
    const auto step = std::make_shared<TimeUs>(500'000);
    options.workers.back().step_time = [step](TimeUs) { return *step; };
    std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
    FleetInvariants invariants(*fleet);
    const auto follows = [&](const char* rule) {
      return fleet->run(fleet->now() + 10 * kMinute, [&] {
        REQUIRE_MESSAGE(invariants.hold(), invariants.broken());
        return fleet->server().pace_name() == rule;
      });
    };
    REQUIRE(follows("lsp:2"));
    *step = 5'000;
    REQUIRE(follows("compat"));
    const uint64_t round = fleet->server().round();
    REQUIRE(
        fleet->run(fleet->now() + kMinute, [&] { return fleet->server().round() > round + 20; }));
  }
}
