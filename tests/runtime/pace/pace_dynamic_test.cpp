// Rules that adapt: what they do when boards change while a run goes on.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/runtime/pace/worlds.h"
#include "tests/support/seed.h"

using namespace paceline;
using namespace paceline::test;

namespace {

// Instants at which every board begins from the same version: full synchronisations.
uint64_t synchronisations(const std::string& pace, std::vector<TimeUs> times, double jitter) {
  PaceWorldOptions options;
  options.pace = pace;
  const size_t workers = times.size();
  options.iteration_us = std::move(times);
  options.jitter = jitter;
  options.seed = test::seed();
  const std::unique_ptr<PaceWorld> fleet = PaceWorld::make(options).value();
  uint64_t count = 0;
  TimeUs instant = -1;
  size_t started = 0;
  for (const PaceEvent& event : events(*fleet, 500 * kSecond)) {
    if (event.kind != PaceEvent::Kind::kStart) continue;
    started = event.at == instant ? started + 1 : 1;
    instant = event.at;
    if (started == workers) ++count;
  }
  return count;
}

uint64_t lead_of(const PaceWorld& fleet) {
  return fleet.members().largest_clock() - fleet.members().smallest_clock();
}

}  // namespace

TEST_SUITE("pace/dsp") {
  TEST_CASE("finite: equal boards meet at least every k exchanges, where ssp never does") {
    CHECK(synchronisations("ssp:3", kEqual, 0.05) == 0);
    // Boards of 5 % jitter lose a little at each barrier.
    CHECK(synchronisations("dsp:3,20", kEqual, 0.05) >= 500 / 20 - 1);
    CHECK(synchronisations("dsp:3,5", kEqual, 0.05) >= 500 / 5 * 9 / 10);
  }

  TEST_CASE("dynamic: the bound follows a disturbance and comes back") {
    PaceWorldOptions options;
    options.pace = "dsp:1,100";
    options.iteration_us = kEqual;
    options.jitter = 0.02;
    const std::unique_ptr<PaceWorld> fleet = PaceWorld::make(options).value();
    uint64_t lead = 0;
    const auto lead_during = [&](TimeUs from, TimeUs until) {
      lead = 0;
      for (TimeUs at = from; at <= until; at += kSecond / 4) {
        fleet->run(at);
        lead = std::max(lead, lead_of(*fleet));
      }
      return lead;
    };
    CHECK(lead_during(0, 300 * kSecond) <= 2);  // the bound, and the push that shows it
    fleet->set_iteration_us(2, 4 * kSecond);
    CHECK(lead_during(300 * kSecond, 600 * kSecond) >= 8);
    fleet->set_iteration_us(2, kSecond);
    fleet->run(760 * kSecond);
    CHECK(lead_during(760 * kSecond, 900 * kSecond) <= 3);
  }

  TEST_CASE("a loss that rises halves both bounds, one that falls gives longer periods") {
    const std::unique_ptr<Pace> pace = make_pace("dsp:8,40").value();
    ClockTable table;
    PaceRow row;
    table.put(row);
    row.worker_id = 1;
    table.put(row);
    pace->members_changed(table, 0);
    TimeUs now = 0;
    double loss = 1;
    // Two boards in turn, so that no lead and no time differs; a barrier shows as a wait.
    const auto period = [&](double loss_factor) {
      for (uint64_t exchanges = 1;; ++exchanges) {
        bool barrier = false;
        for (uint32_t id = 0; id < 2; ++id) {
          PaceRow next = *table.find(id);
          ++next.clock;
          next.iteration_us = kSecond;
          next.loss = loss *= loss_factor;
          table.put(next);
          pace->pushed(table, next, now += kSecond);
          if (id == 0) barrier = !pace->releases(table, next);
        }
        if (barrier) return exchanges;  // and the second board's push has opened it
      }
    };
    CHECK(period(1) == 40);
    for (int i = 0; i < 5; ++i) period(1.01);
    CHECK(period(1.01) == 5);
    for (int i = 0; i < 40; ++i) period(0.99);
    CHECK(period(0.99) == 100);
  }
}

TEST_SUITE("pace/dssp") {
  TEST_CASE("grants never take a lead beyond the range") {
    for (uint64_t run = 0; run < 50; ++run) {
      const std::unique_ptr<PaceWorld> fleet = transient_world("dssp:3,12", test::seed() + run);
      fleet->run(kThousandSeconds);
      CHECK(fleet->figures().lead_max <= 3 + 12 + 1);
    }
  }

  TEST_CASE("where slowness comes and goes grants gain a little over ssp") {
    uint64_t ssp = 0, dssp = 0;
    for (uint64_t run = 0; run < 20; ++run) {
      for (const char* pace : {"ssp:3", "dssp:3,12"}) {
        const std::unique_ptr<PaceWorld> fleet = transient_world(pace, test::seed() + run);
        fleet->run(kThousandSeconds);
        (std::string(pace) == "ssp:3" ? ssp : dssp) += fleet->figures().iterations;
      }
    }
    CHECK(dssp > ssp);
  }
}

TEST_SUITE("pace/ap") {
  TEST_CASE("boards of 1, 1, 2 and 4 s make 4, 4, 2 and 1 exchanges between two barriers") {
    const std::unique_ptr<PaceWorld> fleet = world("ap:1", kPersistent);
    fleet->run(40 * kSecond);
    std::vector<uint64_t> before;
    fleet->members().for_each([&](const PaceRow& row) { before.push_back(row.clock); });
    fleet->run(44 * kSecond);
    std::vector<uint64_t> done;
    fleet->members().for_each(
        [&](const PaceRow& row) { done.push_back(row.clock - before[row.worker_id]); });
    CHECK(done == std::vector<uint64_t>{4, 4, 2, 1});
    CHECK(figures("ap:1", kPersistent).utilisation > 0.99);
    CHECK(figures("bsp", kPersistent).utilisation < 0.51);
  }

  TEST_CASE("a board that becomes twice as slow has its new share after a few rounds") {
    for (const char* pace : {"ap:2", "ap_local:2"}) {
      const std::unique_ptr<PaceWorld> fleet = world(pace, {kSecond, kSecond, 2 * kSecond});
      fleet->run(100 * kSecond);
      fleet->set_iteration_us(1, 2 * kSecond);
      fleet->run(200 * kSecond);
      const PaceFigures before = fleet->figures();
      fleet->run(400 * kSecond);
      const PaceFigures after = fleet->figures();
      const double share = (after.utilisation * 400 - before.utilisation * 200) / 200;
      CHECK_MESSAGE(share > 0.95, pace << " " << share);
    }
  }
}

TEST_SUITE("pace/lsp") {
  TEST_CASE("auto: where a group makes boards wait it gets smaller, down to asp") {
    const PaceFigures limited = figures("lsp:2", kPersistent);
    const PaceFigures controlled = figures("lsp:auto", kPersistent);
    CHECK(controlled.utilisation > limited.utilisation);
    CHECK(controlled.utilisation > 0.99);
  }

  TEST_CASE("a lag cap holds the lead, and bounds the rate by the slowest board's") {
    for (const uint64_t cap : {1u, 3u, 10u}) {
      const PaceFigures capped =
          figures(format_text("lsp:2,%llu", static_cast<unsigned long long>(cap)), kPersistent);
      CHECK(capped.lead_max == cap + 1);
      CHECK(capped.iterations < 1050);
    }
  }
}

TEST_SUITE("pace/adsp") {
  TEST_CASE("commits differ by one at most at every end of a period, and nobody waits") {
    for (const std::vector<TimeUs>& times : {kPersistent, kOneSlow}) {
      const std::unique_ptr<PaceWorld> fleet = world("adsp:60,10", times);
      for (TimeUs at = 120 * kSecond; at <= kThousandSeconds; at += 60 * kSecond) {
        fleet->run(at);
        CHECK(lead_of(*fleet) <= 1);
      }
      CHECK(fleet->figures().utilisation > 0.95);
    }
  }
}

TEST_SUITE("pace/sync_switch") {
  TEST_CASE("half a run of bsp and half a run of asp") {
    const PaceFigures both = figures("sync_switch:50", kPersistent);
    CHECK(both.iterations == doctest::Approx((1000 + 2750) / 2).epsilon(0.01));
    CHECK(both.rounds == doctest::Approx(125).epsilon(0.02));
    CHECK(figures("sync_switch:0", kPersistent).iterations == 2750);
    CHECK(figures("sync_switch:100", kPersistent).iterations == 1000);
  }
}
