// Each pace over a thousand virtual seconds without a network. The oracle is a table that was made
// once by another simulation of the rules: iterations, utilisation, staleness, largest lead.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/runtime/pace/worlds.h"
#include "tests/support/seed.h"

using namespace paceline;
using namespace paceline::test;

namespace {

struct Row {
  const char* pace;
  uint64_t iterations;
  double utilisation, staleness_mean;
  uint64_t lead_max;
};

struct Pair {
  const char *rule, *other;
};

// The table is exact up to end effects: what is still held or just begun when time is up.
void check_rows(const std::vector<TimeUs>& times, std::initializer_list<Row> rows) {
  for (const Row& row : rows) {
    INFO(std::string(row.pace));
    const PaceFigures ours = figures(row.pace, times);
    CHECK(std::fabs(static_cast<double>(ours.iterations) - static_cast<double>(row.iterations)) <=
          8);
    CHECK(ours.utilisation == doctest::Approx(row.utilisation).epsilon(0.004));
    CHECK(std::fabs(ours.staleness_mean - row.staleness_mean) <= 0.012);
    CHECK(std::max(ours.lead_max, row.lead_max) - std::min(ours.lead_max, row.lead_max) <= 1);
  }
}

// The table's rows are one run each: means of several of ours are near them.
void check_transient_rows(std::span<const Row> rows, size_t workers) {
  for (const Row& row : rows) {
    INFO(std::string(row.pace));
    PaceFigures mean;
    constexpr uint64_t kRuns = 10;
    for (uint64_t run = 0; run < kRuns; ++run) {
      const std::unique_ptr<PaceWorld> fleet =
          transient_world(row.pace, test::seed() + run, workers);
      fleet->run(kThousandSeconds);
      const PaceFigures one = fleet->figures();
      mean.iterations += one.iterations;
      mean.utilisation += one.utilisation / kRuns;
      mean.staleness_mean += one.staleness_mean / kRuns;
      if (row.lead_max > 0) CHECK(one.lead_max <= row.lead_max);
    }
    CHECK(static_cast<double>(mean.iterations) / kRuns ==
          doctest::Approx(static_cast<double>(row.iterations)).epsilon(0.05));
    CHECK(mean.utilisation == doctest::Approx(row.utilisation).epsilon(0.05));
    CHECK(std::fabs(mean.staleness_mean - row.staleness_mean) <= 0.03 + 0.08 * row.staleness_mean);
  }
}

}  // namespace

TEST_SUITE("pace/oracles") {
  TEST_CASE("boards that take 1, 1, 2 and 4 s: the row of every pace") {
    check_rows(kPersistent, {{"bsp", 1000, .500, 0, 1},
                             {"asp", 2750, 1.0, 3.0, 751},
                             {"ssp:3", 1009, .503, 1.51, 4},
                             {"ssp:10", 1030, .510, 1.55, 11},
                             {"dssp:3,12", 1015, .504, 1.58, 7},
                             {"lsp:2", 2400, .850, 1.0, 800},
                             {"lsp:3", 2247, .874, .33, 500},
                             {"lsp:4", 1000, .500, 0, 1},
                             {"backup:1", 1750, .750, 0, 500},
                             {"compat", 2750, 1.0, 0, 1},
                             {"ap_local:1", 2743, .998, 0, 1}});
    CHECK(figures("bsp", kPersistent).rounds == 250);
    CHECK(figures("compat", kPersistent).rounds == 250);
    CHECK(figures("backup:1", kPersistent).discarded == 250);
    CHECK(figures("ssp:3", kPersistent).staleness_max == 10);
    CHECK(figures("lsp:3", kPersistent).staleness_max == 2);
  }

  TEST_CASE("seven boards at 1 s and one at 3 s: the row of every pace") {
    check_rows(kOneSlow, {{"bsp", 2671, .417, 0, 1},
                          {"asp", 7333, 1.0, 7.0, 667},
                          {"ssp:3", 2692, .420, 3.54, 4},
                          {"ssp:10", 2741, .426, 3.63, 11},
                          {"dssp:3,12", 2692, .420, 5.26, 6},
                          {"lsp:2", 6667, .917, 3.0, 667},
                          {"lsp:7", 7001, .938, .14, 750},
                          {"backup:1", 7333, 1.0, 0, 1000},
                          {"wsp:2,3", 2691, .420, .03, 4},
                          {"compat", 7333, 1.0, 0, 1},
                          {"ap_local:1", 7319, .998, 0, 1}});
    CHECK(figures("backup:1", kOneSlow).discarded == 333);
  }

  TEST_CASE("slowness that comes and goes: every pace within a twentieth of its row, on average") {
    const Row rows[] = {{"bsp", 1739, .605, 0, 1},          {"asp", 2835, 1.0, 3.0, 0},
                        {"ssp:3", 2419, .839, 2.48, 4},     {"ssp:10", 2644, .930, 2.86, 11},
                        {"dssp:3,12", 2457, .856, 2.54, 0}, {"lsp:2", 2503, .870, 1.0, 0},
                        {"lsp:3", 2289, .795, .33, 0},      {"backup:1", 2415, .838, 0, 0}};
    check_transient_rows(rows, 4);
  }

  TEST_CASE("wsp over eight boards whose slowness comes and goes: less stale with a larger group") {
    const Row rows[] = {{"bsp", 2453, .43, 0, 1},
                        {"wsp:3,3", 4008, .71, .75, 4},
                        {"wsp:3,10", 4696, .83, 1.03, 11},
                        {"wsp:2,10", 4920, .87, 1.88, 11},
                        {"wsp:1,10", 5157, .91, 5.1, 11}};
    check_transient_rows(rows, 8);
  }

  TEST_CASE("lsp's mean staleness is n/l - 1") {
    for (size_t l = 1; l <= 8; ++l) {
      const PaceFigures lsp = figures(format_text("lsp:%zu", l), kOneSlow);
      CHECK(lsp.staleness_mean == doctest::Approx(8.0 / static_cast<double>(l) - 1).epsilon(0.01));
    }
  }

  TEST_CASE("compat with a tenth of jitter wastes less than a micro-batch a worker and round") {
    PaceWorldOptions options;
    options.pace = "compat";
    options.iteration_us = kPersistent;
    options.jitter = 0.1;
    const std::unique_ptr<PaceWorld> fleet = PaceWorld::make(options).value();
    fleet->run(kThousandSeconds);
    const PaceFigures compat = fleet->figures();
    CHECK(compat.rounds == doctest::Approx(249).epsilon(0.01));
    CHECK(compat.iterations == doctest::Approx(2702).epsilon(0.01));
    CHECK(compat.utilisation == doctest::Approx(0.984).epsilon(0.01));
  }
}

TEST_SUITE("pace/limits") {
  // One rule is another at the end of its range: the same starts and applications, at the same
  // instants, on the same versions.
  void check_equal(const std::string& a, const std::string& b) {
    for (uint64_t run = 0; run < 40; ++run) {
      Random random(test::seed(), run);
      PaceWorldOptions options;
      for (uint64_t i = 0; i <= 1 + random.below(6); ++i)
        options.iteration_us.push_back(static_cast<TimeUs>(1 + random.below(5)) * kSecond);
      options.jitter = run % 2 == 0 ? 0 : 0.2;
      options.slow_share = run % 4 < 2 ? 0 : 0.1;
      options.slow_factor = 5;
      options.seed = run;
      const auto with = [&](std::string pace) {
        // "N" stands for the number of workers.
        if (const size_t at = pace.find('N'); at != std::string::npos)
          pace.replace(at, 1, std::to_string(options.iteration_us.size()));
        options.pace = pace;
        const std::unique_ptr<PaceWorld> fleet = PaceWorld::make(options).value();
        return events(*fleet, 300 * kSecond);
      };
      const std::vector<PaceEvent> ours = with(a), theirs = with(b);
      REQUIRE_MESSAGE(ours == theirs, a << " and " << b);
    }
  }

  TEST_CASE("lsp and wsp of all members are bsp") {
    check_equal("lsp:N", "bsp");
    check_equal("wsp:N,0", "bsp");
    check_equal("wsp:N,3", "bsp");
  }
  TEST_CASE("lsp of one is asp, and so is ssp without a bound") {
    check_equal("lsp:1", "asp");
    check_equal("ssp:10000", "asp");
  }
  TEST_CASE("wsp without a bound is lsp") { check_equal("wsp:2,10000", "lsp:2"); }
  TEST_CASE("dssp that grants nothing is ssp") {
    check_equal("dssp:0,0", "ssp:0");
    check_equal("dssp:3,0", "ssp:3");
  }
  TEST_CASE("backup without spare workers is bsp") { check_equal("backup:0", "bsp"); }
  TEST_CASE("sync_switch is bsp to its end, or asp from its first push on") {
    check_equal("sync_switch:100", "bsp");  // these runs have no plan
  }

  TEST_CASE("ssp:0 has bsp's timing, and wsp of one that of ssp") {
    const Pair pairs[] = {
        {"ssp:0", "bsp"}, {"wsp:1,0", "bsp"}, {"wsp:1,3", "ssp:3"}, {"wsp:1,8", "ssp:8"}};
    for (const Pair& pair : pairs) {
      for (const std::vector<TimeUs>& times : {kPersistent, kOneSlow, kEqual}) {
        const auto starts = [&](const char* pace) {
          std::vector<std::vector<TimeUs>> result(times.size());
          const std::unique_ptr<PaceWorld> fleet = world(pace, times);
          for (const PaceEvent& event : events(*fleet, kThousandSeconds))
            if (event.kind == PaceEvent::Kind::kStart) result[event.worker].push_back(event.at);
          return result;
        };
        CHECK_MESSAGE(starts(pair.rule) == starts(pair.other), std::string(pair.rule));
      }
    }
  }

  TEST_CASE("compat and ap_local with equal boards do what bsp does") {
    const PaceFigures bsp = figures("bsp", kEqual);
    for (const char* pace : {"compat", "ap_local:1"}) {
      CHECK(figures(pace, kEqual).rounds == bsp.rounds);
      CHECK(figures(pace, kEqual).iterations == bsp.iterations);
    }
  }
}
