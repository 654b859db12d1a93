// What every entry of freqs.inc promises, whatever its rule.
#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/freq/freq.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

FleetEvaluation evaluation(uint64_t publication, double loss) {
  return {publication, 1000, 500, loss};
}

// A loss that falls, stays, rises or jumps, and is sometimes no number at all.
double wild_loss(Random& random, uint64_t at) {
  switch (random.below(12)) {
    case 0:
      return std::numeric_limits<double>::quiet_NaN();
    case 1:
      return std::numeric_limits<double>::infinity();
    case 2:
      return 1e300;
    default:
      return 2.0 / (1.0 + static_cast<double>(at)) + random.unit();
  }
}

RoundFacts wild_round(Random& random, uint32_t tau) {
  const auto wild = [&](double usual) {
    switch (random.below(20)) {
      case 0:
        return std::numeric_limits<double>::quiet_NaN();
      case 1:
        return std::numeric_limits<double>::infinity();
      case 2:
        return -1.0;
      case 3:
        return 0.0;
      case 4:
        return 1e300;
      default:
        return usual * random.unit();
    }
  };
  RoundFacts round;
  round.workers = static_cast<uint32_t>(random.below(6));
  round.tau = random.below(4) == 0 ? 1 + static_cast<uint32_t>(random.below(kTauMax)) : tau;
  round.cross = 2 * wild(1) - 1;
  round.self = wild(1);
  round.mean_norm = wild(0.1);
  round.spread = wild(0.1);
  round.turn = wild(0.1);
  round.rate = wild(0.1);
  round.step_us = wild(10'000);
  round.exchange_us = wild(1'000'000);
  round.left_us = wild(1e9);
  return round;
}

// An evaluation now and then, a round each time.
void observe_anything(Freq& freq, Random& random, uint64_t at) {
  if (random.below(3) == 0) {
    FleetEvaluation next = evaluation(at, wild_loss(random, at));
    next.rate_share = random.below(9) == 0 ? std::numeric_limits<double>::quiet_NaN()
                                           : 1 - random.unit() * (at > 50 ? 1 : 0);
    freq.observe(next);
  }
  freq.observe_round(wild_round(random, freq.tau()));
}

}  // namespace

TEST_SUITE("contract/freq") {
  TEST_CASE("every policy is made from its bare name and from a first tau, and is described") {
    CHECK(freqs().size() >= 6);
    for (const FreqInfo& info : freqs()) {
      const Result<std::unique_ptr<Freq>> bare = make_freq(info.name);
      REQUIRE(bare.has_value());
      CHECK((*bare)->tau() >= 1);
      CHECK((*bare)->tau() <= kTauMax);
      CHECK_FALSE((*bare)->reason().empty());
      CHECK(std::string(info.description).size() > 10);
      // Where the tau that is given is not the first one, an exchange follows every step at first.
      for (const uint32_t tau : {1u, 7u, kTauMax}) {
        const uint32_t first = make_freq(format_text("%s:%u", info.name, tau)).value()->tau();
        CHECK((first == tau || first == 1));
      }
    }
  }

  TEST_CASE("a tau that can't be is refused, and the message shows the form") {
    for (const FreqInfo& info : freqs()) {
      for (const char* nonsense : {":x", ":0", ":-1", ":+1", ": 3", ":3 ", ":3x", ":0x3", ":1025",
                                   ":99999999999999999999"}) {
        const Result<std::unique_ptr<Freq>> freq = make_freq(std::string(info.name) + nonsense);
        REQUIRE_FALSE(freq.has_value());
        CHECK(freq.error().code() == Code::kInvalidArgument);
        CHECK(freq.error().message().find("\"" + std::string(info.name) + ":16\"") !=
              std::string::npos);
      }
    }
    const Result<std::unique_ptr<Freq>> unknown = make_freq(std::string(100'000, 'x'));
    REQUIRE_FALSE(unknown.has_value());
    CHECK(unknown.error().message().size() < 300);
    for (const FreqInfo& info : freqs())
      CHECK(unknown.error().message().find(info.name) != std::string::npos);
  }

  TEST_CASE("whatever the fleet reports, tau stays within 1 and its bound and has a reason") {
    Random random(test::seed(), 1);
    for (const FreqInfo& info : freqs()) {
      for (int run = 0; run < 50; ++run) {
        const std::unique_ptr<Freq> freq = make_freq(info.name).value();
        for (uint64_t i = 0; i < 200; ++i) {
          observe_anything(*freq, random, i);
          if (freq->tau() < 1 || freq->tau() > kTauMax) FAIL(freq->tau());
          if (freq->reason().empty()) FAIL("no reason");
        }
      }
    }
  }

  TEST_CASE("saved at any moment and restored, it goes on as if nothing had happened") {
    for (const FreqInfo& info : freqs()) {
      for (uint64_t moment = 0; moment < 40; ++moment) {
        Random random(test::seed(), moment);
        const std::unique_ptr<Freq> lives = make_freq(info.name).value();
        for (uint64_t i = 0; i < moment; ++i) observe_anything(*lives, random, i);
        ByteWriter out;
        lives->save(&out);
        const std::unique_ptr<Freq> again = make_freq(info.name).value();
        ByteReader in(out.bytes());
        REQUIRE(again->restore(&in).ok());
        CHECK(in.left() == 0);
        CHECK(again->tau() == lives->tau());
        for (uint64_t i = moment; i < moment + 100; ++i) {
          Random same(test::seed(), 1000 * moment + i), copy = same;
          observe_anything(*lives, same, i);
          observe_anything(*again, copy, i);
          CHECK(again->tau() == lives->tau());
        }
        CHECK(again->reason() == lives->reason());
      }
    }
  }

  TEST_CASE("a state that is cut short or says nonsense is kCorrupt and changes nothing") {
    for (const FreqInfo& info : freqs()) {
      const std::unique_ptr<Freq> freq = make_freq(info.name).value();
      for (uint64_t i = 0; i < 7; ++i) freq->observe(evaluation(i, 1.0));
      ByteWriter out;
      freq->save(&out);
      const Bytes state = out.take();
      const std::unique_ptr<Freq> other = make_freq(info.name).value();
      ByteWriter before, after;
      other->save(&before);
      for (size_t length = 0; length < state.size(); ++length) {
        ByteReader in(ByteSpan(state).first(length));
        CHECK(other->restore(&in).code() == Code::kCorrupt);
      }
      if (!state.empty()) {
        const Bytes ones(state.size(), std::byte{0xFF});
        ByteReader in(ones);
        CHECK(other->restore(&in).code() == Code::kCorrupt);
      }
      other->save(&after);
      CHECK(before.bytes() == after.bytes());
    }
  }
}
