// What has to hold after every event does hold, on bad networks and with boards that come and go.
#include "simulate/invariants.h"

#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;

namespace {

constexpr TimeUs kSecond = 1'000'000;

FleetOptions random_fleet(const std::string& pace, Random& random) {
  FleetOptions options = test::toy_fleet({.workers = 4, .rows_per_worker = 64, .batch = 8});
  options.seed = random.next();
  options.server.pace = pace;
  options.server.freq = "fixed:2";
  options.server.min_workers = 1;
  options.server.heartbeat_ms = 100;
  options.server.exchange_deadline_ms = 300;
  for (FleetWorker& worker : options.workers) {
    worker.step_us = 2000 + static_cast<TimeUs>(random.below(8000));
    worker.joins_at_us = static_cast<TimeUs>(random.below(kSecond / 2));
    LoopbackFaults link;
    link.delay_us = static_cast<TimeUs>(random.below(3000));
    link.jitter_us = static_cast<TimeUs>(random.below(5000));
    link.request_loss = link.reply_loss = random.unit() * 0.1;
    link.duplication = random.unit() * 0.3;
    const auto cut = static_cast<TimeUs>(random.below(2 * kSecond));
    link.outages.push_back({cut, cut + kSecond / 4});
    worker.link = link;
    if (random.unit() < 0.5) {
      worker.crashes_at_us = static_cast<TimeUs>(random.below(2 * kSecond));
      worker.back_after_us = static_cast<TimeUs>(random.below(kSecond / 2));
    } else if (random.unit() < 0.3) {
      worker.leaves_at_us = kSecond + static_cast<TimeUs>(random.below(kSecond));
    }
  }
  return options;
}

}  // namespace

TEST_SUITE("simulate/invariants") {
  TEST_CASE("they hold under every pace, whatever happens") {
    set_log_level(LogLevel::kOff);
    Random random(test::seed(), 77);
    uint64_t versions = 0;
    for (const PaceInfo& info : paces()) {
      for (int i = 0; i < 20; ++i) {
        const std::unique_ptr<Fleet> fleet = Fleet::make(random_fleet(info.name, random)).value();
        FleetInvariants invariants(*fleet);
        fleet->run(4 * kSecond, [&] { return !invariants.hold(); });
        CHECK_MESSAGE(invariants.broken() == "", std::string(info.name));
        versions += fleet->server().version();
      }
    }
    CHECK(versions > 5000);
  }

  TEST_CASE("what each pace allows") {
    CHECK(pace_lead_max("bsp") == 1);
    CHECK(pace_lead_max("ssp") == 4);
    CHECK(pace_lead_max("ssp:7+stale") == 8);
    CHECK(pace_lead_max("wsp:2,9") == 10);
    CHECK(pace_lead_max("dssp:1") == 14);
    CHECK(pace_lead_max("asp") == UINT64_MAX);
  }
}
