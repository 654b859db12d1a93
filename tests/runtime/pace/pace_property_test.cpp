// Random fleets: boards of any speed that come, crash and change while a run goes on. Whatever
// happens, nobody is further ahead than the rule allows, somebody always computes, and every update
// is applied once.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runtime/pace/policy.h"
#include "tests/runtime/pace/worlds.h"
#include "tests/support/seed.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr uint64_t kFleets = 2000;

PaceWorldOptions random_fleet(const std::string& pace, Random& random, uint64_t seed) {
  PaceWorldOptions options;
  options.pace = pace;
  const uint64_t workers = 1 + random.below(9);
  for (uint64_t i = 0; i < workers; ++i)
    options.iteration_us.push_back(static_cast<TimeUs>(20 + random.below(2000)));
  // Half of the fleets work in step: ties are where rules differ.
  if (random.below(2) == 0)
    for (TimeUs& us : options.iteration_us) us = 100 * (1 + us % 4);
  options.jitter = random.below(3) == 0 ? 0.3 : 0;
  options.slow_share = random.below(3) == 0 ? 0.1 : 0;
  options.slow_factor = 8;
  options.seed = seed;
  options.planned_us = 20'000;
  return options;
}

// What each worker's updates were: begun, applied or discarded, in turn.
class Ledger {
 public:
  void operator()(const PaceEvent& event) {
    State& state = states_[event.worker];
    switch (event.kind) {
      case PaceEvent::Kind::kStart:
        // What was begun before is settled, or was lost with its worker.
        if (state == State::kBegun) ++faults;
        state = State::kBegun;
        break;
      case PaceEvent::Kind::kApply:
        if (state != State::kBegun && state != State::kLost) ++faults;
        state = State::kApplied;
        ++applied;
        break;
      case PaceEvent::Kind::kDiscard:
        if (state != State::kBegun) ++faults;
        state = State::kApplied;
        break;
    }
    if (event.version < version) ++faults;  // versions only rise
    version = event.version;
  }
  void crashed(uint32_t worker) {
    if (states_[worker] == State::kBegun) states_[worker] = State::kLost;
  }

  uint64_t faults = 0, applied = 0, version = 0;

 private:
  enum class State { kBegun, kApplied, kLost };  // a run begins with work for everybody
  std::map<uint32_t, State> states_;
};

// lead_max  right after a push; 0: the rule has no bound
void check_random_fleets(const std::string& pace, uint64_t lead_max) {
  uint64_t events = 0;
  for (uint64_t run = 0; run < kFleets; ++run) {
    Random random(test::seed(), run);
    const std::unique_ptr<PaceWorld> fleet =
        PaceWorld::make(random_fleet(pace, random, run)).value();
    INFO(pace << ", fleet " << run << " of seed " << test::seed());
    Ledger ledger;
    fleet->set_observer(std::ref(ledger));
    for (TimeUs at = 0; at < 20'000; at += 1 + static_cast<TimeUs>(random.below(2000))) {
      fleet->run(at);
      const auto worker = static_cast<uint32_t>(random.below(fleet->worker_count()));
      switch (random.below(4)) {
        case 0:
          ledger.crashed(worker);
          fleet->leave(worker);
          break;
        case 1:
          fleet->join(worker);
          break;
        case 2:
          fleet->set_iteration_us(worker, static_cast<TimeUs>(20 + random.below(2000)));
          break;
        default:
          if (pace != "auto") break;
          fleet->follow(kPaceCandidates[random.below(kPaceCandidateCount)].name);
          break;
      }
      REQUIRE_FALSE(fleet->stuck());
      if (fleet->pace().elastic())
        REQUIRE(fleet->members().largest_clock() <= fleet->members().smallest_clock() + 1);
    }
    // Whoever is there gets on: one more iteration of the slowest, at most eight times as long.
    const uint64_t before = fleet->figures().events;
    fleet->run(fleet->now() + 40'000);
    REQUIRE((fleet->members().empty() || fleet->figures().events > before));
    REQUIRE_FALSE(fleet->stuck());
    const PaceFigures figures = fleet->figures();
    REQUIRE(ledger.faults == 0);
    REQUIRE(ledger.applied == figures.updates);
    if (lead_max > 0) REQUIRE(figures.lead_max <= lead_max);
    events += figures.events;
  }
  CHECK(events > 10 * kFleets);
}

}  // namespace

TEST_SUITE("pace/any fleet") {
  TEST_CASE("bsp") { check_random_fleets("bsp", 1); }
  TEST_CASE("asp") { check_random_fleets("asp", 0); }
  TEST_CASE("ssp") {
    check_random_fleets("ssp:0", 1);
    check_random_fleets("ssp:3", 4);
  }
  TEST_CASE("compat") { check_random_fleets("compat", 1); }
  TEST_CASE("dsp") {
    check_random_fleets("dsp", 10 + 1);
    check_random_fleets("dsp:1,5", 10 + 1);
  }
  TEST_CASE("dssp") { check_random_fleets("dssp:2,5", 2 + 5 + 1); }
  TEST_CASE("lsp") {
    check_random_fleets("lsp", 0);
    check_random_fleets("lsp:3,2", 3);
    check_random_fleets("lsp:auto,4", 5);
  }
  TEST_CASE("wsp") {
    check_random_fleets("wsp:1,0", 1);
    check_random_fleets("wsp:3,2", 3);
    check_random_fleets("wsp", 6);
  }
  TEST_CASE("backup") { check_random_fleets("backup:2", 0); }
  TEST_CASE("ap") {
    check_random_fleets("ap:2", 0);
    check_random_fleets("ap_local:1", 1);
  }
  TEST_CASE("adsp") { check_random_fleets("adsp:1,10000", 0); }  // a commit every 100 us
  TEST_CASE("sync_switch") { check_random_fleets("sync_switch:50", 0); }
  TEST_CASE("fedbuff") { check_random_fleets("fedbuff", 0); }

  TEST_CASE("auto, which follows one rule after another at any moment") {
    check_random_fleets("auto", 0);
  }

  TEST_CASE("any other pace is held to it, too") {
    for (const PaceInfo& info : paces()) check_random_fleets(info.name, 0);
  }
}
