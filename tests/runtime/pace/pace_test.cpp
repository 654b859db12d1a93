// Each pace over virtual seconds without a network: boards that take 1, 1, 2 and 4 s an iteration,
// 1000 s. The published figures of the rules are the oracle: utilisation, staleness, largest lead.
#include <doctest/doctest.h>

#include "tests/runtime/pace/pace_world.h"

using namespace paceline;
using test::PaceFigures;
using test::PaceWorld;

namespace {

const std::vector<int64_t> kPersistent = {8, 8, 16, 32};  // eighths of a second
constexpr int64_t kThousandSeconds = 8000;

PaceFigures figures(const char* pace, std::vector<int64_t> times = kPersistent,
                    int64_t until = kThousandSeconds) {
  PaceWorld world(pace, std::move(times));
  world.run(until);
  return world.figures();
}

}  // namespace

TEST_SUITE("pace/oracles") {
  TEST_CASE("bsp: 1000 iterations, half the time computing, no staleness, a lead of one") {
    const PaceFigures bsp = figures("bsp");
    CHECK(bsp.iterations == 1000);
    CHECK(bsp.rounds == 250);
    CHECK(bsp.utilisation == doctest::Approx(0.5).epsilon(0.001));
    CHECK(bsp.mean_staleness == 0);
    CHECK(bsp.lead_max == 1);
  }

  TEST_CASE("asp: 2750 iterations, nobody waits, three versions stale on average") {
    const PaceFigures asp = figures("asp");
    CHECK(asp.iterations == 2750);
    CHECK(asp.utilisation == doctest::Approx(1).epsilon(0.001));
    CHECK(asp.mean_staleness == doctest::Approx(3.0).epsilon(0.01));
    CHECK(asp.lead_max == 751);  // the last instant's push, before the slowest's own
  }

  TEST_CASE("ssp: against a slow board that stays slow it runs at bsp's rate, within its bound") {
    struct Row {
      const char* pace;
      uint64_t iterations, lead_max;
      double mean_staleness;
    };
    for (const Row& row : {Row{"ssp:3", 1009, 4, 1.51}, Row{"ssp:10", 1030, 11, 1.55}}) {
      const PaceFigures ssp = figures(row.pace);
      CHECK(ssp.iterations == row.iterations);
      CHECK(ssp.lead_max == row.lead_max);
      CHECK(ssp.mean_staleness == doctest::Approx(row.mean_staleness).epsilon(0.02));
    }
  }

  TEST_CASE("one board of eight at a third of the speed: the published row of each pace") {
    const std::vector<int64_t> times = {8, 8, 8, 8, 8, 8, 8, 24};
    CHECK(figures("bsp", times).rounds == 333);
    CHECK(figures("bsp", times).iterations / 8 == 333);
    CHECK(figures("asp", times).iterations == 7333);
    const PaceFigures ssp = figures("ssp:3", times);
    CHECK(ssp.iterations == doctest::Approx(2692).epsilon(0.002));
    CHECK(ssp.lead_max == 4);
    const PaceFigures compat = figures("compat", times);
    CHECK(compat.rounds == 333);
    CHECK(compat.utilisation == doctest::Approx(1).epsilon(0.001));
  }

  TEST_CASE("compat: bsp's 250 rounds and asp's 2750 mini-batches, none stale") {
    const PaceFigures compat = figures("compat");
    CHECK(compat.rounds == 250);
    CHECK(compat.iterations == 2750);  // eight micro-batches each
    CHECK(compat.utilisation == doctest::Approx(1).epsilon(0.001));
    CHECK(compat.mean_staleness == 0);
  }

  TEST_CASE("compat with equal boards takes one mini-batch each: it is bsp") {
    const PaceFigures compat = figures("compat", {8, 8, 8});
    const PaceFigures bsp = figures("bsp", {8, 8, 8});
    CHECK(compat.rounds == bsp.rounds);
    CHECK(compat.iterations == bsp.iterations);
  }

  TEST_CASE("ssp:0 has bsp's timing: every board starts every iteration at the same instant") {
    for (const std::vector<int64_t>& times :
         {kPersistent, std::vector<int64_t>{3, 5, 7}, std::vector<int64_t>{4, 4, 4, 4, 9}}) {
      PaceWorld ssp("ssp:0", times), bsp("bsp", times);
      ssp.run(2000);
      bsp.run(2000);
      CHECK(ssp.starts() == bsp.starts());
    }
  }

  TEST_CASE("a bound that is never reached makes ssp asp") {
    PaceWorld ssp("ssp:10000", kPersistent), asp("asp", kPersistent);
    ssp.run(kThousandSeconds);
    asp.run(kThousandSeconds);
    CHECK(ssp.starts() == asp.starts());
  }

  TEST_CASE("the slowest board leaves in the middle of its work: nobody waits for it") {
    for (const char* pace : {"bsp", "ssp:3", "asp", "compat"}) {
      PaceWorld world(pace, kPersistent);
      world.run(kThousandSeconds / 2 + 1);
      const uint64_t before = world.figures().iterations;
      world.remove(3);
      world.run(kThousandSeconds);
      // 500 s of boards that take 1, 1 and 2 s; bsp and ssp wait for the slowest that is left.
      const uint64_t gained = world.figures().iterations - before;
      const bool waits_for_slowest = std::string(pace) == "bsp" || std::string(pace) == "ssp:3";
      CHECK_MESSAGE(gained >= (waits_for_slowest ? 745u : 1240u), std::string(pace));
      CHECK_FALSE(world.stuck());
    }
  }
}
