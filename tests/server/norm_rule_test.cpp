// Who sends what is too long is shortened or refused, and nobody else notices.
#include "server/norm_rule.h"

#include <doctest/doctest.h>

#include "tests/server/server_desk.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::refusal_of;
using test::ServerDesk;

namespace {

// Three workers, counted, past the rounds in which the rule only shortens.
struct Three {
  ServerDesk desk;
  HandWorker a{&desk, "a"}, b{&desk, "b"}, c{&desk, "c"};

  explicit Three(int rounds) : desk(desk_options("bsp")) {
    test::join({&a, &b, &c});
    for (int i = 0; i < rounds; ++i) round(1, 1, 1);
  }
  // What the round moved the model by.
  float round(float for_a, float for_b, float for_c) {
    const float before = desk.core().master()[0];
    c.exchange(for_c);
    a.exchange(for_a);
    b.exchange(for_b);
    return test::moved(desk, before);
  }
  const Member& member(size_t id) { return desk.core().members()[id]; }
};

}  // namespace

TEST_SUITE("server/norm_rule") {
  TEST_CASE("a length is held against the round's, else against the worker's own") {
    CHECK(judge_norm(4, 1, 0, false).clip == 1);
    CHECK(judge_norm(8, 1, 0, false).clip == 0.5f);
    CHECK_FALSE(judge_norm(8, 1, 0, false).refused);
    CHECK(judge_norm(10.1, 1, 0, false).refused);
    CHECK_FALSE(judge_norm(10.1, 1, 0, true).refused);
    CHECK(judge_norm(40, 1, 0, true).clip == 0.1f);
    CHECK(judge_norm(1e30, 1, 0, true).refused);
    // Alone: against what it did before; the first ones pass.
    CHECK(judge_norm(8, 0, 1, false).clip == 0.5f);
    CHECK(judge_norm(11, 0, 1, false).refused);
    CHECK(judge_norm(1e9, 0, 0, false).clip == 1);
    // A board whose updates are always long is shortened, never turned away.
    CHECK_FALSE(judge_norm(20, 1, 20, false).refused);
    CHECK(judge_norm(20, 1, 20, false).clip == 0.2f);
  }

  TEST_CASE("two can't tell who is odd, and another tau is no comparison") {
    const double two[] = {1, 100}, three[] = {1, 100, 2};
    CHECK(usual_of_round(two) == 0);
    CHECK(usual_of_round(three) == 2);
    NormHistory history;
    for (int i = 1; i <= 5; ++i) {
      CHECK(history.usual(4) == 0);
      history.remember(i, 4);
    }
    CHECK(history.usual(4) == 3);
    CHECK(history.usual(8) == 0);
    history.remember(1, 8);
    CHECK(history.usual(4) == 0);
  }

  TEST_CASE("five rounds after a change of generation, tau, codec or rate are for settling") {
    NormSettling rule;
    Directive directive;
    directive.rate = 0.1f;
    uint64_t round = 100;
    const auto settles_in = [&](uint64_t generation) {
      uint64_t rounds = 0;
      while (rule.settling(generation, directive, round++)) ++rounds;
      return rounds;
    };
    CHECK(settles_in(1) == 5);
    CHECK(settles_in(2) == 5);
    directive.tau = 4;
    CHECK(settles_in(2) == 5);
    directive.codec_up = 2;
    CHECK(settles_in(2) == 5);
    directive.rate = 0.05f;
    CHECK(settles_in(2) == 5);
    directive.rate = 0.0499f;  // a schedule's step
    CHECK(settles_in(2) == 0);
  }

  TEST_CASE("far too long is refused with a strike, and the others' mean is theirs alone") {
    Three fleet(6);
    CHECK(fleet.round(1, 1, 20) == doctest::Approx(1));
    const std::optional<Message> answer = fleet.c.late_answer();
    CHECK(refusal_of(answer) == RefusalClass::kContent);
    CHECK(as<Refused>(answer)->reason == "it is 20 times as long as is usual");
    CHECK(fleet.member(2).strikes == 1);
    CHECK(fleet.member(2).verdict == Verdict::kRefused);
    // It is a member as before, and a verdict is for ever.
    CHECK(refusal_of(fleet.desk.ask(fleet.c.session, fleet.c.exchange_of(fleet.c.update(20)))) ==
          RefusalClass::kContent);
    CHECK(fleet.round(1, 1, 1) == doctest::Approx(1));
  }

  TEST_CASE("too long is shortened to four times the usual") {
    Three fleet(6);
    CHECK(fleet.round(1, 1, 8) == doctest::Approx(2));
    CHECK(fleet.member(2).clipped == 1);
    CHECK(fleet.member(2).strikes == 0);
    CHECK(fleet.member(2).verdict == Verdict::kApplied);
    CHECK(fleet.round(1, 1, 4) == doctest::Approx(2));
    CHECK(fleet.member(2).clipped == 1);
  }

  TEST_CASE("at the start nobody is refused") {
    Three fleet(0);
    CHECK(fleet.round(1, 1, 1000) == doctest::Approx(2).epsilon(0.01));  // a weight has 8 bits
    CHECK(fleet.member(2).strikes == 0);
  }

  TEST_CASE("without rounds a worker is held against itself") {
    ServerDesk desk(desk_options("asp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    for (int i = 0; i < 12; ++i) CHECK(as<Granted>(worker.exchange(1)) != nullptr);
    const float before = desk.core().master()[0];
    CHECK(refusal_of(worker.exchange(20)) == RefusalClass::kContent);
    CHECK(test::moved(desk, before) == 0);
    worker.exchange(8);
    CHECK(test::moved(desk, before) == doctest::Approx(4));
  }
}
