#include "runtime/pace/policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

constexpr const char* kFirst = "compat";
constexpr const char* kGroups = "lsp:2";

// Boards with steps of so many ms on links that take 20 ms for an exchange.
struct Fleet {
  explicit Fleet(const std::vector<double>& step_ms) {
    for (const double ms : step_ms) boards.push_back({ms * 1e3, 20e3, 4});
    facts.boards = boards;
    facts.members = boards.size();
    facts.round_tau = 4;
    facts.training_loss = 2;
  }
  Fleet(const Fleet&) = delete;
  Fleet& operator=(const Fleet&) = delete;

  // A round that takes a tenth of a second, in which the loss falls by `share` of itself.
  std::string round(PacePolicy* policy, double share, bool others_move = false) {
    facts.now_us += 1e5;
    facts.training_loss *= 1 - share;
    return policy->decide(facts, others_move).name;
  }
  // The name after so many rounds.
  std::string rounds(PacePolicy* policy, int count, double share) {
    std::string name;
    for (int i = 0; i < count; ++i) name = round(policy, share);
    return name;
  }

  std::vector<PaceBoard> boards;
  PaceFacts facts;
};

std::vector<double> with_straggler(size_t count, double times) {
  std::vector<double> steps(count, 5);
  steps.back() *= times;
  return steps;
}

}  // namespace

TEST_SUITE("pace/policy") {
  TEST_CASE("where boards are alike or differ a little, the first rule stays") {
    for (const std::vector<double>& steps :
         {std::vector<double>{5}, {5, 5}, {5, 5, 10, 20}, with_straggler(8, 3)}) {
      Fleet fleet(steps);
      PacePolicy policy;
      CHECK(fleet.rounds(&policy, 200, 0.01) == kFirst);
      CHECK(policy.reason() == "the run begins with it");
    }
  }

  TEST_CASE("a board that is far slower than all others makes groups worth a trial, and says why") {
    Fleet fleet(with_straggler(8, 200));
    PacePolicy policy;
    CHECK(fleet.rounds(&policy, 4, 0.01) == kFirst);
    CHECK(fleet.round(&policy, 0.01) == kGroups);
    CHECK(policy.reason().find("of the time of compat for the same progress") != std::string::npos);
    // Two boards make no group.
    Fleet two(with_straggler(2, 200));
    PacePolicy other;
    CHECK(two.rounds(&other, 200, 0.01) == kFirst);
  }

  TEST_CASE("a longer exchange of one board makes groups cheaper, a longer step of all does not") {
    Fleet fleet({5, 5, 5, 5});
    const double rounds = price_pace(fleet.facts, kPaceCandidates[0]);
    const double groups = price_pace(fleet.facts, kPaceCandidates[1]);
    fleet.boards.back().exchange_us *= 100;
    CHECK(price_pace(fleet.facts, kPaceCandidates[0]) > 2 * rounds);
    CHECK(price_pace(fleet.facts, kPaceCandidates[1]) < 2 * groups);
    for (PaceBoard& board : fleet.boards) board = {5e6, 20e3, 4};
    CHECK(price_pace(fleet.facts, kPaceCandidates[1]) >
          price_pace(fleet.facts, kPaceCandidates[0]));
  }

  TEST_CASE(
      "a trial under which the loss falls stays; one under which it does not ends, and waits") {
    for (const bool good : {true, false}) {
      Fleet fleet(with_straggler(8, 200));
      PacePolicy policy;
      REQUIRE(fleet.rounds(&policy, 5, 0.01) == kGroups);
      const std::string end = fleet.rounds(&policy, 40, good ? 0.01 : -0.001);
      CHECK(end == (good ? kGroups : kFirst));
      CHECK(policy.reason().find("was predicted") != std::string::npos);
      CHECK(fleet.rounds(&policy, 60, 0.01) == end);
    }
  }

  TEST_CASE("a rule that failed is left alone for twice as many rounds each time") {
    Fleet fleet(with_straggler(8, 200));
    PacePolicy policy;
    int waited[4] = {};
    for (int& rounds : waited) {
      while (fleet.round(&policy, 0.01) == kFirst) ++rounds;
      while (fleet.round(&policy, -0.001) != kFirst) {
      }
    }
    CHECK(waited[1] >= 95);
    for (int i = 2; i < 4; ++i) CHECK(waited[i] >= 1.9 * waited[i - 1]);
  }

  TEST_CASE("a loss that grows by half ends a trial long before its time") {
    PacePolicy policy;
    Fleet fleet(with_straggler(8, 1));
    fleet.rounds(&policy, 40, 0.001);
    fleet.boards.back().step_us *= 200;
    REQUIRE(fleet.rounds(&policy, 3, 0.001) == kGroups);
    fleet.facts.training_loss *= 2;
    CHECK(fleet.rounds(&policy, 12, 0.0) == kFirst);
    CHECK(policy.reason().find("the loss grew from") != std::string::npos);
  }

  TEST_CASE("the pace never moves with anything else, nor soon again, whatever is measured") {
    Random random(test::seed(), 41);
    Fleet fleet({5, 5, 5, 5, 5});
    PacePolicy policy;
    std::string before = kFirst;
    uint64_t changes = 0, since = 1;
    for (int i = 0; i < 20'000; ++i, ++since) {
      if (i % 50 == 0)
        for (PaceBoard& board : fleet.boards)
          board = {1e3 + 1e6 * random.unit() * random.unit(), 1e6 * random.unit() * random.unit(),
                   static_cast<uint32_t>(1 + random.below(64))};
      const bool others_move = random.below(5) == 0;
      const std::string now = fleet.round(&policy, 0.01 * (random.unit() - 0.48), others_move);
      if (now == before) continue;
      CHECK_FALSE(others_move);
      CHECK(since >= 5);
      ++changes;
      since = 0;
      before = now;
    }
    CHECK(changes > 10);
  }

  TEST_CASE("what is saved goes on as it was: the rule, its trial and who is left alone") {
    Fleet fleet(with_straggler(8, 200));
    PacePolicy policy;
    for (int i = 0; i < 300; ++i) {
      fleet.round(&policy, i % 70 < 40 ? 0.01 : -0.01);
      ByteWriter out;
      policy.save(&out);
      const Bytes bytes = out.take();
      PacePolicy other;
      ByteReader in(bytes);
      REQUIRE(other.restore(&in).ok());
      CHECK(other.now().name == policy.now().name);
      CHECK(other.reason() == "as before the restart");
      ByteWriter again;
      other.save(&again);
      CHECK(again.take() == bytes);
      for (size_t size = 0; size < bytes.size(); ++size) {
        ByteReader part(ByteSpan(bytes).first(size));
        CHECK_FALSE(PacePolicy().restore(&part).ok());
      }
      for (size_t at : {size_t{0}, size_t{1}, size_t{2}}) {
        Bytes wrong = bytes;
        wrong[at] = std::byte{7};
        ByteReader bad(wrong);
        CHECK_FALSE(PacePolicy().restore(&bad).ok());
      }
    }
  }
}
