// Codecs chosen by the link, in a whole fleet under a virtual clock: what is measured against what
// the network was made of.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/check.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

constexpr TimeUs kMinute = 60'000'000;

ToyOptions toy() {
  ToyOptions options;
  options.hidden = 512;  // 4,096 weights: wide enough for every codec
  options.batch = 8;
  options.rows_per_worker = 160;
  options.backend = "auto";
  return options;
}

struct Run {
  std::unique_ptr<Fleet> fleet;
  uint32_t codec_changes = 0;
  uint32_t both_changed = 0;  // codec and tau in one round
};

Run run_fleet(const char* pace, double bits_per_s, TimeUs delay_us, uint64_t rounds,
              bool automatic) {
  FleetOptions options = test::toy_fleet(toy());
  options.server.pace = pace;
  options.server.freq = "trend";
  options.server.codec_up = options.server.codec_down = CodecId::kQ8;
  options.server.codec_up_auto = options.server.codec_down_auto = automatic;
  options.server.exchange_deadline_ms = 120'000;
  options.faults.delay_us = delay_us;
  options.faults.link = {bits_per_s, bits_per_s};
  Run run;
  run.fleet = Fleet::make(std::move(options)).value();
  Directive before = run.fleet->server().directive();
  REQUIRE(run.fleet->run(600 * kMinute, [&] {
    const Directive& now = run.fleet->server().directive();
    const bool codec = now.codec_up != before.codec_up || now.codec_down != before.codec_down;
    run.codec_changes += codec ? 1 : 0;
    run.both_changed += codec && now.tau != before.tau ? 1 : 0;
    before = now;
    return run.fleet->server().rounds_done() >= rounds;
  }));
  return run;
}

Run run_auto(const char* pace, double bits_per_s, TimeUs delay_us, uint64_t rounds) {
  return run_fleet(pace, bits_per_s, delay_us, rounds, true);
}

double bits(uint8_t wire_id) {
  return codec_info(codec_by_wire_id(wire_id).value()).bits_per_element;
}

}  // namespace

TEST_SUITE("simulate/content") {
  TEST_CASE("every worker's link is found as it was made, to a tenth") {
    for (const double bits_per_s : {2e5, 2e6, 2e7}) {
      for (const TimeUs delay_us : {200, 20'000}) {
        CAPTURE(bits_per_s);
        CAPTURE(delay_us);
        const Run run = run_fleet("compat", bits_per_s, delay_us, 15, false);
        for (const Member& member : run.fleet->server().members()) {
          REQUIRE(member.link.known());
          const LinkCost link = member.link.cost();
          // The small messages of a trip take their time on the link, too.
          const double small_us = 500 * 8e6 / bits_per_s;
          CHECK(link.trip_us >= 2 * static_cast<double>(delay_us));
          CHECK(link.trip_us <= 2 * static_cast<double>(delay_us) + small_us + 100);
          CHECK(link.up_us_per_byte == doctest::Approx(8e6 / bits_per_s).epsilon(0.1));
          CHECK(link.down_us_per_byte == doctest::Approx(8e6 / bits_per_s).epsilon(0.1));
        }
      }
    }
  }

  TEST_CASE("in every pace codecs are chosen, seldom, and never together with tau") {
    for (const char* pace : {"bsp", "compat", "asp", "ssp:3"}) {
      CAPTURE(std::string(pace));
      const Run run = run_auto(pace, 1e9, 500, 100);
      CHECK(run.both_changed == 0);
      CHECK(run.codec_changes >= 1);
      CHECK(run.codec_changes <= 100 / 5);
      CHECK(run.fleet->server().content().reason_up() != "the link is not measured yet");
    }
  }

  TEST_CASE("on a thin link exchanges have few bits and are rare, and it learns as on a fast one") {
    // A round of the fast one is a step or two.
    const Run thin = run_auto("compat", 5e4, 500, 60), fast = run_auto("compat", 1e9, 500, 240);
    const Directive &few = thin.fleet->server().directive(),
                    &many = fast.fleet->server().directive();
    CHECK(bits(few.codec_up) < 2);
    CHECK(bits(few.codec_down) < 2);
    CHECK(few.tau >= many.tau);
    for (const Run* run : {&thin, &fast})
      CHECK(test::toy_loss(toy(), run->fleet->server().published()) < 0.85);
  }

  TEST_CASE("the same seed gives the same choices and the same model") {
    const Run one = run_auto("compat", 1e6, 500, 30), two = run_auto("compat", 1e6, 500, 30);
    CHECK(one.codec_changes == two.codec_changes);
    CHECK(one.fleet->server().checksum() == two.fleet->server().checksum());
    CHECK(one.fleet->server().content().reason_up() == two.fleet->server().content().reason_up());
  }
}
