#include "server/director.h"

#include <doctest/doctest.h>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

Director make_director(DirectorOptions options, const char* freq) {
  return Director(options, make_freq(freq).value());
}

uint32_t tau_at(const char* freq, double step_us, double exchange_us, double progress = -1) {
  Director director = make_director({}, freq);
  FleetFacts facts;
  facts.step_us = step_us;
  facts.exchange_us = exchange_us;
  facts.progress = progress;
  return director.compose(facts).tau;
}

}  // namespace

TEST_SUITE("server/director") {
  TEST_CASE("on a thin link tau is at least what an exchange costs in steps, up to 64") {
    CHECK(tau_at("trend:2", 0, 1e9) == 2);  // nothing measured yet
    CHECK(tau_at("trend:2", 1000, 500) == 2);
    CHECK(tau_at("trend:2", 1000, 8000) == 8);
    CHECK(tau_at("trend:16", 1000, 8000) == 16);  // the policy wants more: so be it
    CHECK(tau_at("trend:2", 1000, 1e9) == 64);
    CHECK(tau_at("trend:2", 1e-300, 1e300) == 64);
    CHECK(tau_at("fixed:2", 1000, 1e9) == 2);  // fixed means fixed
  }

  TEST_CASE("measurements that waver by a quarter never move tau to and fro") {
    for (const double center : {3.0, 10.0, 25.0}) {
      Director director = make_director({}, "trend:1");
      FleetFacts facts;
      facts.step_us = 1000;
      facts.exchange_us = center * 1000;
      uint32_t tau = director.compose(facts).tau;
      uint32_t changes = 0;
      for (int i = 0; i < 200; ++i) {
        facts.exchange_us = center * 1000 * (i % 2 == 0 ? 1.25 : 0.75);
        const uint32_t next = director.compose(facts).tau;
        changes += next != tau ? 1 : 0;
        tau = next;
      }
      CHECK(changes <= 1);
    }
  }

  TEST_CASE("with other codecs the link's least tau is found anew, not from where it was") {
    const PayloadSizes sizes{.wide_elements = 1e5, .narrow_elements = 1e3, .chunk_count = 1};
    Director director = make_director(
        {.content = {.codecs = {}, .up_auto = true, .down_auto = true, .sizes = sizes}}, "trend:1");
    WorkerCost worker{1000, {100, 100, 100}};
    FleetFacts facts;
    facts.publication = 100;
    facts.step_us = 1000;
    facts.exchange_us = 30'000;
    CHECK(director.compose(facts).tau == 32);
    facts.workers = {&worker, 1};
    Directive directive;
    for (int i = 0; i < 5 && directive.codec_up != static_cast<uint8_t>(CodecId::kTk1); ++i)
      directive = director.compose(facts);
    REQUIRE(directive.codec_up == static_cast<uint8_t>(CodecId::kTk1));
    CHECK(directive.tau == 32);
    // A third of it would hold 8 by the dead band alone.
    facts.exchange_us = 3500;
    CHECK(director.compose(facts).tau == 4);
  }

  TEST_CASE("so it is when the slowest board turns out to be another one, but not when it wavers") {
    Director director = make_director({}, "trend:1");
    FleetFacts facts;
    facts.exchange_us = 360'000;
    facts.step_us = 10'000;  // before the slowest has sent anything
    CHECK(director.compose(facts).tau == 32);
    facts.step_us = 20'000;
    CHECK(director.compose(facts).tau == 16);
    facts.step_us = 25'000;
    CHECK(director.compose(facts).tau == 16);
    facts.step_us = 10'000;
    CHECK(director.compose(facts).tau == 32);
  }

  TEST_CASE("what the first rounds cost holds tau nowhere") {
    for (const bool settled : {false, true}) {
      Director director = make_director({}, "trend:1");
      FleetFacts facts;
      facts.step_us = 20'000;
      facts.settled = settled;
      facts.exchange_us = 380'000;
      CHECK(director.compose(facts).tau == 16);
      facts.exchange_us = 640'000;
      CHECK(director.compose(facts).tau == 32);
      facts.settled = true;
      facts.exchange_us = 265'000;
      // Within the dead band of 32.
      CHECK(director.compose(facts).tau == (settled ? 32 : 16));
      facts.exchange_us = 420'000;
      CHECK(director.compose(facts).tau == 32);
    }
  }

  TEST_CASE("the last twentieth of a planned run exchanges at every step, whatever the link") {
    CHECK(tau_at("fixed:16", 1000, 1e6, 0.94) == 16);
    CHECK(tau_at("fixed:16", 1000, 1e6, 0.95) == 1);
    CHECK(tau_at("trend:16", 1000, 1e6, 1.0) == 1);
  }

  TEST_CASE("without a dense end a fixed tau stays to the end") {
    DirectorOptions options;
    options.dense_end = false;
    Director director = make_director(options, "fixed:16");
    FleetFacts facts;
    facts.progress = 0.99;
    CHECK(director.compose(facts).tau == 16);
  }

  TEST_CASE("every change of tau brings its reason") {
    Director director = make_director({}, "trend:2");
    FleetFacts facts;
    CHECK(director.compose(facts).reason == "start at 2, no trend yet");
    facts.step_us = 1000;
    facts.exchange_us = 20'000;
    CHECK(director.compose(facts).reason == "an exchange takes 20 ms, a step 1 ms");
    facts.progress = 0.99;
    CHECK(director.compose(facts).reason == "the end is near: every step");
  }

  TEST_CASE(
      "the rate holds for half of a plan, then falls in a line to its share; without a plan "
      "it stays") {
    Director director = make_director({.content = {}, .rate = 0.2, .rate_end = 0.1}, "fixed:1");
    const auto rate = [&](double progress) {
      FleetFacts facts;
      facts.progress = progress;
      return static_cast<double>(director.compose(facts).rate);
    };
    for (const double progress : {-1.0, 0.0, 0.25, 0.5})
      CHECK(rate(progress) == doctest::Approx(0.2));
    CHECK(rate(0.75) == doctest::Approx(0.11));
    CHECK(rate(1.0) == doctest::Approx(0.02));
    CHECK(rate(7.0) == doctest::Approx(0.02));
  }

  TEST_CASE("evaluating takes at most a twentieth of a worker's time, and is never given up") {
    for (const uint64_t held_out : {20u, 512u, 5000u}) {
      for (const double exchange_us : {0.0, 8000.0}) {
        Director director = make_director({.content = {}, .batch = 32}, "fixed:4");
        FleetFacts facts;
        facts.held_out_rows_max = held_out;
        facts.step_us = 1000;
        facts.exchange_us = exchange_us;
        CHECK(director.compose(facts).evaluate);  // the first model is always looked at
        uint64_t evaluations = 0;
        constexpr int kRounds = 20'000;
        for (int i = 0; i < kRounds; ++i) evaluations += director.compose(facts).evaluate ? 1 : 0;
        // In steps: a forward pass over a row costs a third of training on it.
        const double evaluated =
            static_cast<double>(evaluations) * static_cast<double>(held_out) / 3 / 32;
        const double lived = kRounds * (4 + exchange_us / 1000);
        CHECK(evaluated <= 0.05 * lived * 1.01);
        // Not idle either: it uses at least half of what it may, where that is more than nothing.
        CHECK((evaluations == kRounds || evaluated >= 0.02 * lived));
      }
    }
  }

  TEST_CASE("a fast worker may take four times tau, and codecs warm up in q8") {
    Director director = make_director({.content = {.codecs = {CodecId::kS1r, CodecId::kQ8},
                                                   .warmup_publications = 3,
                                                   .sizes = {}}},
                                      "fixed:16");
    FleetFacts facts;
    facts.elastic = true;
    for (facts.publication = 1; facts.publication <= 5; ++facts.publication) {
      const Directive directive = director.compose(facts);
      CHECK(directive.steps_cap == 64);
      CHECK(directive.elastic);
      const CodecId up = facts.publication <= 3 ? CodecId::kQ8 : CodecId::kS1r;
      CHECK(directive.codec_up == static_cast<uint8_t>(up));
      CHECK(directive.codec_down == static_cast<uint8_t>(CodecId::kQ8));
    }
    Director exact = make_director({.content = {.codecs = {CodecId::kRaw32, CodecId::kS1r},
                                                .warmup_publications = 3,
                                                .sizes = {}}},
                                   "fixed:1");
    facts.publication = 1;
    CHECK(exact.compose(facts).codec_up == static_cast<uint8_t>(CodecId::kRaw32));
    CHECK(make_director({}, "fixed:1024").compose(facts).steps_cap <= 4 * kTauMax);
  }

  TEST_CASE("content and frequency never change in the same round, whatever is measured") {
    Random random(test::seed(), 27);
    for (const char* freq : {"trend", "fixed:4"}) {
      const PayloadSizes sizes{.wide_elements = 1e5, .narrow_elements = 1e3, .chunk_count = 1};
      Director director = make_director(
          {.content = {.codecs = {}, .up_auto = true, .down_auto = true, .sizes = sizes}}, freq);
      WorkerCost worker{1000, {100, 1, 1}};
      FleetFacts facts;
      facts.workers = {&worker, 1};
      Directive before;
      int tau_changes = 0, codec_changes = 0;
      for (uint64_t i = 1; i <= 2000; ++i) {
        if (i % 20 == 0)
          worker.link.up_us_per_byte = worker.link.down_us_per_byte =
              random.unit() < 0.5 ? 1e-4 : 10 * random.unit();
        facts.publication = i;
        facts.step_us = 1000;
        facts.exchange_us = i % 5 < 3 ? 0 : 1e5 * worker.link.up_us_per_byte * random.unit();
        if (i % 3 == 0)
          director.observe({i, 300, 100, random.unit() + 1000.0 / static_cast<double>(i)});
        Directive next = director.compose(facts);
        const bool tau = i > 1 && next.tau != before.tau;
        const bool codec =
            i > 1 && (next.codec_up != before.codec_up || next.codec_down != before.codec_down);
        CHECK_FALSE((tau && codec));
        tau_changes += tau ? 1 : 0;
        codec_changes += codec ? 1 : 0;
        before = std::move(next);
      }
      CHECK(codec_changes > 5);
      CHECK((tau_changes > 5) == (std::string(freq) == "trend"));
    }
  }

  TEST_CASE("saved and restored it goes on the same") {
    Director lives = make_director({}, "trend");
    FleetFacts facts;
    facts.held_out_rows_max = 300;
    for (uint64_t i = 0; i < 7; ++i) {
      facts.publication = i + 1;
      lives.observe({i, 300, 100, 2.0 - 0.1 * static_cast<double>(i)});
      (void)lives.compose(facts);
    }
    ByteWriter out;
    lives.save(&out);
    Director again = make_director({}, "trend");
    ByteReader in(out.bytes());
    REQUIRE(again.restore(&in).ok());
    for (uint64_t i = 7; i < 40; ++i) {
      for (Director* each : {&lives, &again})
        each->observe({i, 300, 100, 2.0 - 0.01 * static_cast<double>(i)});
      Directive ours = lives.compose(facts), theirs = again.compose(facts);
      CHECK(ours.tau == theirs.tau);
      CHECK(ours.evaluate == theirs.evaluate);
    }
  }
}
