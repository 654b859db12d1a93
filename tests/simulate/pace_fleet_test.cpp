// Every pace in the production server and workers, really training.
#include <doctest/doctest.h>

#include <cstring>
#include <string>

#include "tests/simulate/ledger.h"
#include "tests/support/seed.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::kMinute;

namespace {

// Four boards of speeds 1:1:2:4.
FleetOptions fleet_with(const std::string& pace, const test::ToyOptions& toy = {}) {
  FleetOptions options = test::toy_fleet(toy);
  options.server.pace = pace;
  options.server.codec_up = options.server.codec_down = CodecId::kQ8;
  options.faults.delay_us = 100;
  options.workers[2].step_us = 10'000;
  options.workers[3].step_us = 20'000;
  return options;
}

struct Pair {
  const char *rule, *other;
  uint64_t versions;  // after which they are compared
};

struct Models {
  std::vector<float> master, published;
};

// After `versions` changes of the master.
Models models_after(const std::string& pace, bool with_rounds, uint64_t versions) {
  FleetOptions options = fleet_with(pace);
  // What waits for the fleet to be complete would be one group of lsp and four updates of asp.
  options.server.min_workers = with_rounds ? 4 : 1;
  std::unique_ptr<Fleet> fleet = Fleet::make(std::move(options)).value();
  REQUIRE_MESSAGE(fleet->run(10 * kMinute, [&] { return fleet->server().version() >= versions; }),
                  pace);
  const auto copy = [](std::span<const float> values) {
    return std::vector<float>(values.begin(), values.end());
  };
  return {copy(fleet->server().master()), copy(fleet->server().published())};
}

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_SUITE("simulate/paces") {
  TEST_CASE("where one rule is another, master and publication are the same to the bit") {
    const Pair pairs[] = {
        {"lsp:4", "bsp", 25},       {"wsp:4,1", "bsp", 25},      {"wsp:4,5", "bsp", 25},
        {"backup:0", "bsp", 25},    {"sync_switch", "bsp", 25},  // no plan: it never switches
        {"lsp:1", "asp", 100},      {"ssp:10000", "asp", 100},   {"bsp+stale", "bsp", 25},
        {"dssp:3,0", "ssp:3", 100}, {"wsp:2,10000", "lsp:2", 60}};
    for (const Pair& pair : pairs) {
      INFO(std::string(pair.rule) << " and " << std::string(pair.other));
      const bool with_rounds = std::string(pair.other) == "bsp";
      const Models ours = models_after(pair.rule, with_rounds, pair.versions);
      const Models theirs = models_after(pair.other, with_rounds, pair.versions);
      CHECK(same_bytes(ours.master, theirs.master));
      CHECK(same_bytes(ours.published, theirs.published));
    }
  }

  TEST_CASE("every pace learns at speeds 1:1:2:4, and goes on when its slowest board dies") {
    for (const PaceInfo& info : paces()) {
      INFO("pace " << std::string(info.name));
      FleetOptions options = fleet_with(info.name);
      options.server.min_workers = 1;
      std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
      REQUIRE_FALSE(fleet->run(10'000'000, [] { return false; }));
      CHECK(test::toy_loss({}, fleet->server().published()) < 0.75);
      const uint64_t before = fleet->server().version();
      fleet->stop_worker(3);
      REQUIRE(fleet->run(60'000'000, [&] { return fleet->server().version() > before + 50; }));
      fleet->restart_worker(3);
      REQUIRE(fleet->run(90'000'000, [&] { return fleet->server().members()[3].counted; }));
    }
  }

  TEST_CASE("leads stay within the bound, while a board starts again and again") {
    const std::pair<const char*, uint64_t> bounds[] = {
        {"ssp:3", 4}, {"dssp:2,3", 6}, {"wsp:2,2", 3}, {"lsp:2,3", 4}, {"dsp:2,20", 11}};
    for (const auto& [pace, bound] : bounds) {
      FleetOptions options = fleet_with(pace);
      options.server.min_workers = 1;
      options.server.heartbeat_ms = 50;
      std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
      uint64_t lead_max = 0, restarts = 0;
      TimeUs next_restart = 500'000;
      fleet->run(8'000'000, [&] {
        uint64_t low = UINT64_MAX, high = 0;
        for (const Member& member : fleet->server().members()) {
          if (!member.counted) continue;
          low = std::min(low, member.clock);
          high = std::max(high, member.clock);
        }
        if (high > 0) lead_max = std::max(lead_max, high - low);
        if (fleet->now() >= next_restart) {
          fleet->stop_worker(0);
          fleet->restart_worker(0);
          next_restart += 500'000;
          ++restarts;
        }
        return false;
      });
      CHECK(restarts > 10);
      CHECK(lead_max <= bound);
    }
  }

  TEST_CASE("ap_local: boards of 1:1:2:4 hardly wait, where in bsp they wait half of the time") {
    const auto waiting_share = [](const char* pace) {
      // Rows enough that four times tau is less than an epoch.
      FleetOptions options = fleet_with(pace, {.rows_per_worker = 2000});
      options.server.freq = "fixed:4";
      std::unique_ptr<Fleet> fleet = Fleet::make(options).value();
      fleet->run(20'000'000, [] { return false; });
      double waited = 0;
      for (size_t i = 0; i < 4; ++i) waited += to_seconds(fleet->worker(i).stats().waited_us);
      return waited / (4 * to_seconds(fleet->now()));
    };
    CHECK(waiting_share("bsp") > 0.4);
    CHECK(waiting_share("ap_local:1") < 0.15);
  }

  TEST_CASE("backup: the slow board's late updates are given back, not lost") {
    test::Ledger ledger({.pace = "backup:1", .slowest_step_us = 40'000, .seed = test::seed()});
    REQUIRE(ledger.run(4 * kMinute, [&] { return ledger.fleet().server().version() >= 60; }));
    CHECK(ledger.fleet().worker(2).stats().rounds_missed +
              ledger.fleet().worker(2).stats().refused_late >
          5);
    ledger.settle();
    ledger.check_conserved();
  }

  TEST_CASE("a bad network loses no gradient, whatever the pace") {
    for (const PaceInfo& info : paces()) {
      INFO("pace " << std::string(info.name));
      test::Ledger ledger({.pace = info.name,
                           .codec = CodecId::kQ8,
                           .faults = test::bad_network(),
                           .seed = test::seed() + 1});
      REQUIRE(ledger.run(10 * kMinute, [&] { return ledger.fleet().server().version() >= 25; }));
      ledger.settle();
      ledger.check_conserved();
    }
  }
}
