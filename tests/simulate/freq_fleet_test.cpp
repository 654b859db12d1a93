// Frequency policies in the production server and workers, really training.
#include <doctest/doctest.h>

#include <string>

#include "tests/support/toy_fleet.h"

using namespace paceline;

namespace {

constexpr TimeUs kMinute = 60'000'000;

// The directive after `rounds` rounds of four boards on a fast link.
Directive directive_after(const char* freq, const test::ToyOptions& toy, CodecId codec,
                          uint64_t rounds) {
  FleetOptions options = test::toy_fleet(toy);
  options.server.freq = freq;
  options.server.codec_up = options.server.codec_down = codec;
  options.faults.delay_us = 10;
  std::unique_ptr<Fleet> fleet = Fleet::make(std::move(options)).value();
  REQUIRE(fleet->run(20 * kMinute, [&] { return fleet->server().round() > rounds; }));
  return fleet->server().directive();
}

}  // namespace

TEST_SUITE("simulate/freqs") {
  TEST_CASE("agreement: boards that hold the same talk less than boards of one class each") {
    for (const CodecId codec : {CodecId::kQ8, CodecId::kS1r}) {
      const test::ToyOptions alike{.rows_per_worker = 2000, .rate = 0.02, .hidden = 64};
      test::ToyOptions apart = alike;
      apart.skewed = true;
      const Directive same = directive_after("agreement:8", alike, codec, 45);
      const Directive skewed = directive_after("agreement:8", apart, codec, 45);
      MESSAGE("tau " << same.tau << " (" << same.reason << ") where data are alike, " << skewed.tau
                     << " (" << skewed.reason << ") where they differ");
      CHECK(same.tau > skewed.tau);
      CHECK(skewed.tau < 8);
    }
  }

  TEST_CASE("adacomm talks more as the loss falls, budget finds its estimates") {
    const test::ToyOptions toy{.rows_per_worker = 2000, .hidden = 64};
    CHECK(directive_after("adacomm:16", toy, CodecId::kQ8, 100).tau < 16);
    const Directive budget = directive_after("budget:4", toy, CodecId::kQ8, 60);
    CHECK(budget.reason.find("nothing measured") == std::string::npos);
  }
}
