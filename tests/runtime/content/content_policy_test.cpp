#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/random.h"
#include "tests/runtime/content/fleet_facts.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::FleetOnLinks;

namespace {

ContentPolicy automatic() {
  return ContentPolicy(
      {.codecs = {}, .up_auto = true, .down_auto = true, .sizes = test::demo_sizes()});
}

double bits(CodecId codec) { return codec_info(codec).bits_per_element; }

CodecPair after(ContentPolicy* policy, const ContentFacts& facts, int rounds) {
  CodecPair codecs;
  for (int i = 0; i < rounds; ++i) codecs = policy->decide(facts, false);
  return codecs;
}

}  // namespace

TEST_SUITE("content/policy") {
  TEST_CASE("until a link is measured one bit goes, and says so") {
    ContentPolicy policy = automatic();
    ContentFacts facts;
    CHECK(after(&policy, facts, 10) == CodecPair{CodecId::kS1r, CodecId::kS1r});
    CHECK(policy.reason_up() == "the link is not measured yet");
  }

  TEST_CASE("codecs that keep back much wait for 20 publications, or 5 % of the plan") {
    for (const bool planned : {false, true}) {
      ContentPolicy policy = automatic();
      FleetOnLinks fleet({0.05, 0.05});
      uint64_t sparse_since = 0;
      for (uint64_t publication = 2; publication < 40 && sparse_since == 0; ++publication) {
        fleet.facts.publication = publication;
        if (planned) fleet.facts.progress = static_cast<double>(publication) / 200;
        if (bits(policy.decide(fleet.facts, false).up) < 1) sparse_since = publication;
      }
      CHECK(sparse_since > (planned ? 10 : 20));
      CHECK(policy.reason_up().find("at 0.05 Mbit/s up and 0.05 down") == 0);
    }
  }

  TEST_CASE("content waits while the frequency moves") {
    ContentPolicy policy = automatic();
    FleetOnLinks fleet({1e5});
    fleet.facts.publication = 2;
    for (int i = 0; i < 20; ++i)
      CHECK(policy.decide(fleet.facts, true) == CodecPair{CodecId::kS1r, CodecId::kS1r});
    CHECK(bits(after(&policy, fleet.facts, 3).up) > 2);
  }

  TEST_CASE(
      "measurements that waver by a quarter change nothing, wild ones at most each 5 rounds") {
    Random random(test::seed(), 26);
    for (const double center : {0.1, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0}) {
      for (const bool wild : {false, true}) {
        ContentPolicy policy = automatic();
        FleetOnLinks fleet({center, center});
        CodecPair codecs = after(&policy, fleet.facts, 10);
        int changes = 0, rounds_since = 100;
        for (int round = 0; round < 500; ++round, ++rounds_since) {
          const double factor =
              wild ? std::pow(100, random.unit() - 0.5) : 0.8 + 0.45 * random.unit();
          for (WorkerCost& worker : fleet.workers)
            worker.link.up_us_per_byte = worker.link.down_us_per_byte = 8 / center * factor;
          const CodecPair next = policy.decide(fleet.facts, false);
          if (next != codecs) {
            CHECK(rounds_since >= 5);
            rounds_since = 0;
            ++changes;
          }
          codecs = next;
        }
        CAPTURE(center);
        if (!wild) CHECK(changes <= 1);
      }
    }
  }

  TEST_CASE("a link that becomes thin, or fast again, is followed") {
    ContentPolicy policy = automatic();
    FleetOnLinks fast({1000}), thin({0.02});
    const CodecPair before = after(&policy, fast.facts, 20);
    const CodecPair during = after(&policy, thin.facts, 20);
    CHECK(bits(during.up) < bits(before.up));
    CHECK(policy.reason_up().find("at 0.02 Mbit/s up and 0.02 down an exchange of ") == 0);
    // Not always the very same pair: of two that cost almost the same the present one stays.
    CHECK(bits(after(&policy, fast.facts, 20).down) >= bits(during.down));
  }

  TEST_CASE("a codec that loses is left for more bits at once, with the reason, for 100 rounds") {
    ContentPolicy policy = automatic();
    FleetOnLinks fleet({1});
    const CodecId loser = after(&policy, fleet.facts, 20).up;
    REQUIRE(bits(loser) < 2);
    for (int i = 0; i < 9; ++i) policy.observe_update(loser, {0.1, 1, 0.99});
    const CodecPair next = policy.decide(fleet.facts, false);
    CHECK(bits(next.up) > bits(loser));
    CHECK(policy.reason_up().find(std::string(codec_info(loser).name) + " keeps back 98 %") == 0);
    for (int i = 0; i < 9; ++i) policy.observe_update(loser, {0.1, 1, test::lost_norm(loser)});
    CHECK(bits(after(&policy, fleet.facts, 98).up) > bits(loser));
    CHECK(after(&policy, fleet.facts, 10).up == loser);
  }

  TEST_CASE(
      "a gap that the codec does not close is closed in q8, also where a file fixes the codec") {
    for (const bool down_auto : {false, true}) {
      ContentPolicy policy(
          {.codecs = {}, .up_auto = false, .down_auto = down_auto, .sizes = test::demo_sizes()});
      ContentFacts facts;
      facts.publication = 1;
      Gap gap;
      gap.worst_share = 0.02;
      for (uint64_t publication = 1; publication <= 11; publication += 5) {
        CHECK(policy.decide(facts, false).down == CodecId::kS1r);
        policy.observe_publication(CodecId::kTk1, {0, 1, 0.99}, gap, publication);
      }
      CHECK(policy.decide(facts, false) == CodecPair{CodecId::kS1r, CodecId::kQ8});
      CHECK(policy.reason_down() == "the published model lags too far behind");
      gap.worst_share = 0.001;
      policy.observe_publication(CodecId::kQ8, {0, 1, 0.006}, gap, 12);
      CHECK(policy.decide(facts, false).down == CodecId::kS1r);
    }
  }

  TEST_CASE("what a file fixes stays, after as many publications in q8 as it says") {
    ContentPolicy policy({.codecs = {CodecId::kS1r, CodecId::kBf16},
                          .warmup_publications = 3,
                          .sizes = test::demo_sizes()});
    FleetOnLinks fleet({0.1});
    for (uint64_t publication = 1; publication < 50; ++publication) {
      fleet.facts.publication = publication;
      const CodecId up = publication <= 3 ? CodecId::kQ8 : CodecId::kS1r;
      CHECK(policy.decide(fleet.facts, false) == CodecPair{up, CodecId::kBf16});
    }
    // One direction alone may be automatic.
    ContentPolicy half({.codecs = {CodecId::kRaw32, CodecId::kRaw32},
                        .down_auto = true,
                        .sizes = test::demo_sizes()});
    const CodecPair codecs = after(&half, fleet.facts, 20);
    CHECK(codecs.up == CodecId::kRaw32);
    CHECK(bits(codecs.down) < 2);
  }

  TEST_CASE("saved and restored it goes on with the same codecs, and a broken state is kCorrupt") {
    ContentPolicy lives = automatic();
    FleetOnLinks fleet({1000});
    const CodecPair codecs = after(&lives, fleet.facts, 30);
    ByteWriter out;
    lives.save(&out);
    ContentPolicy again = automatic();
    ByteReader in(out.bytes());
    REQUIRE(again.restore(&in).ok());
    CHECK(again.decide({}, false) == codecs);
    CHECK(again.reason_up() == "as before the restart");
    for (size_t at = 0; at < out.bytes().size(); ++at) {
      Bytes broken(out.bytes().begin(), out.bytes().end());
      broken[at] = std::byte{200};
      ByteReader reader(broken);
      CHECK(automatic().restore(&reader).code() == Code::kCorrupt);
    }
  }
}
