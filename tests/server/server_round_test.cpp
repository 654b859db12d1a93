// Rounds: when they open, who is told to cut, what a deadline does.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/server/server_desk.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::refusal_of;
using test::ServerDesk;

namespace {

// Two workers that are counted in the open round.
struct Pair {
  explicit Pair(const char* pace, uint32_t deadline_ms = 30'000)
      : desk([&] {
          ServerOptions options = desk_options(pace);
          options.exchange_deadline_ms = deadline_ms;
          return options;
        }()) {
    test::join({&a, &b});
  }
  std::span<const Member> members() { return desk.core().members(); }

  ServerDesk desk;
  HandWorker a{&desk, "a"}, b{&desk, "b"};
};

}  // namespace

TEST_SUITE("server/round") {
  TEST_CASE("the mean of a round is by weight, in id order, whoever comes first") {
    std::vector<float> first;
    for (const bool swapped : {false, true}) {
      ServerDesk desk(desk_options("bsp"));
      HandWorker a{&desk, "a", 300}, b{&desk, "b", 100};
      test::join({&a, &b});
      const float before = desk.core().master()[0];
      HandWorker& early = swapped ? b : a;
      HandWorker& late = swapped ? a : b;
      early.exchange(&early == &a ? 0.7f : -0.3f);
      late.exchange(&late == &a ? 0.7f : -0.3f);
      const double share = static_cast<double>(round_weight(1.0 / 3));
      CHECK(test::moved(desk, before) ==
            doctest::Approx((0.7 - 0.3 * share) / (1 + share)).epsilon(1e-5));
      const std::vector<float> master(desk.core().master().begin(), desk.core().master().end());
      if (first.empty()) first = master;
      CHECK(master == first);
    }
  }

  TEST_CASE("a version that can't be published is dropped whole, and the next round goes on") {
    ServerDesk desk(desk_options("bsp", 600, 300));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    test::join({&a, &b});
    const auto round = [&](float value) {
      a.exchange(value);
      b.exchange(value);
    };
    round(0x1.8p118f);
    const std::vector<float> before(desk.core().published().begin(), desk.core().published().end());
    const uint64_t publication = desk.core().publication();
    CHECK(before[0] == 0x1.8p118f);
    round(0x1.8p118f);
    CHECK(desk.core().publication() == publication);
    CHECK(std::ranges::equal(desk.core().published(), before));
    CHECK(std::ranges::equal(desk.core().master(), before));
    round(-0x1.0p118f);
    CHECK(desk.core().publication() == publication + 1);
    CHECK(desk.core().published()[0] == 0x1p117f);
  }

  TEST_CASE("compat: Ready waits until everybody has its minimum, then all are told to cut") {
    Pair pair("compat");
    const uint64_t round = pair.desk.core().round();
    CHECK_FALSE(pair.desk.ask(pair.a.session, Ready{1, round, 1}).has_value());
    const uint64_t parked = pair.desk.last_token;
    const std::optional<Message> second = pair.desk.ask(pair.b.session, Ready{1, round, 1});
    REQUIRE(as<Close>(second) != nullptr);
    CHECK(as<Close>(second)->round == round);
    CHECK(as<Close>(pair.desk.answer(parked)) != nullptr);
    // A Ready that comes after the cut, or of a closed round, is answered at once.
    CHECK(as<Close>(pair.desk.ask(pair.a.session, Ready{1, round, 2})) != nullptr);
    pair.a.exchange(0.0f);
    CHECK(as<Granted>(pair.b.exchange(0.0f)) != nullptr);
    CHECK(as<Close>(pair.desk.ask(pair.a.session, Ready{1, round, 2})) != nullptr);
    CHECK_FALSE(pair.desk.ask(pair.a.session, Ready{1, round + 1, 1}).has_value());
  }

  TEST_CASE("compat: an update that is here already counts as ready") {
    Pair pair("compat");
    const uint64_t round = pair.desk.core().round();
    CHECK_FALSE(pair.desk.ask(pair.a.session, Ready{1, round, 1}).has_value());
    const uint64_t parked = pair.desk.last_token;
    CHECK_FALSE(pair.b.exchange(0.0f).has_value());
    CHECK(as<Close>(pair.desk.answer(parked)) != nullptr);
  }

  TEST_CASE("a member that is silent past the deadline is left out until it reports again") {
    Pair pair("bsp", 2000);
    const uint64_t round = pair.desk.core().round();
    CHECK_FALSE(pair.a.exchange(1.0f).has_value());
    pair.desk.pass(from_ms(1000));  // half the time-out: ask again
    CHECK(as<Wait>(pair.a.late_answer()) != nullptr);
    pair.desk.pass(from_ms(500));
    pair.desk.ask(pair.a.session, pair.a.exchange_of(pair.a.update(1.0f)));
    pair.a.exchange_token = pair.desk.last_token;
    pair.b.beat();
    pair.desk.pass(from_ms(499));
    CHECK(pair.desk.core().round() == round);
    pair.desk.pass(from_ms(1));
    CHECK(pair.desk.core().round() == round + 1);
    CHECK(as<Granted>(pair.a.late_answer()) != nullptr);
    CHECK_FALSE(pair.members()[1].counted);

    // Its update of the closed round is late; from the next round on it counts again.
    const EncodedUpdate update = pair.b.update(1.0f);
    ++pair.b.sequence;
    pair.b.push(update);
    Exchange exchange = pair.b.exchange_of(update);
    exchange.round = round;
    exchange.base_publication -= 1;
    CHECK(refusal_of(pair.desk.ask(pair.b.session, exchange)) == RefusalClass::kLate);
    CHECK(as<Granted>(pair.a.exchange(0.0f)) != nullptr);
    CHECK(pair.members()[1].counted);
  }

  TEST_CASE("a member that is not heard of for three heartbeats does not hold its round") {
    Pair pair("bsp");
    const uint64_t round = pair.desk.core().round();
    CHECK_FALSE(pair.a.exchange(1.0f).has_value());
    for (int i = 0; i < 3; ++i) {
      pair.desk.pass(from_ms(1000));
      CHECK(pair.desk.core().round() == round);
    }
    CHECK(pair.desk.core().next_timer() == pair.desk.now + 1);
    pair.desk.pass(1);
    CHECK(pair.desk.core().round() == round + 1);
    CHECK_FALSE(pair.members()[1].counted);
  }

  TEST_CASE("ssp: who is too far ahead waits for the slowest to push, or to leave") {
    ServerDesk desk(desk_options("ssp:1"));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    test::join({&a, &b});
    while (as<Granted>(a.exchange(0.0f)) != nullptr) {
    }
    CHECK(desk.core().members()[0].clock == desk.core().members()[1].clock + 2);
    CHECK_FALSE(a.late_answer().has_value());
    CHECK(as<Granted>(b.exchange(0.0f)) != nullptr);
    CHECK(as<Granted>(a.late_answer()) != nullptr);

    CHECK_FALSE(a.exchange(0.0f).has_value());
    ++b.sequence;
    Exchange goodbye = b.exchange_of({});
    goodbye.leaving = true;
    desk.ask(b.session, goodbye);
    CHECK(as<Granted>(a.late_answer()) != nullptr);
  }

  TEST_CASE("finish: the last cut is published exactly, and says that the run is over") {
    for (const char* pace : {"bsp", "asp"}) {
      ServerOptions options = desk_options(pace);
      options.codec_down = CodecId::kQ8;
      ServerDesk desk(std::move(options));
      HandWorker worker{&desk, "a"};
      worker.say_hello();
      for (int i = 0; i < 3; ++i) worker.exchange(0.013f * static_cast<float>(i));
      desk.core().finish(desk.now);
      if (std::string(pace) == "bsp") worker.exchange(0.017f);
      CHECK(desk.core().finished());
      CHECK(desk.core().directive().finish);
      const std::span<const float> published = desk.core().published();
      CHECK(std::equal(published.begin(), published.end(), desk.core().master().begin()));
      CHECK_FALSE(desk.core().all_gone(desk.now));
      Fetch fetch;
      fetch.generation = desk.core().generation();
      fetch.from = desk.core().publication() - 1;
      CHECK(as<Fetched>(desk.ask(worker.session, fetch)) != nullptr);
      CHECK(desk.core().all_gone(desk.now));
    }
  }

  TEST_CASE("finish: what comes after the last cut is refused, and moves nothing") {
    for (const char* pace : {"bsp", "compat", "asp"}) {
      CAPTURE(std::string(pace));
      ServerDesk desk(desk_options(pace));
      HandWorker early{&desk, "early"};
      early.say_hello();
      desk.core().finish(desk.now);
      REQUIRE(desk.core().finished());
      const uint64_t publication = desk.core().publication();
      const uint32_t checksum = desk.core().checksum();
      HandWorker late{&desk, "late"};
      late.say_hello();
      CHECK(late.welcome.directive.finish);
      for (HandWorker* worker : {&early, &late}) {
        const Ready ready{worker->incarnation, desk.core().round(), 1};
        CHECK(as<Close>(desk.ask(worker->session, ready)) != nullptr);
        CHECK(refusal_of(worker->exchange(1.0f)) == RefusalClass::kLate);
      }
      CHECK(desk.core().publication() == publication);
      CHECK(desk.core().checksum() == checksum);
    }
  }

  TEST_CASE("finish: an update that waits for its round is in the last model") {
    for (const char* pace : {"bsp", "asp"}) {
      CAPTURE(std::string(pace));
      ServerOptions options = desk_options(pace);
      options.min_workers = 2;
      ServerDesk desk(std::move(options));
      HandWorker leaver{&desk, "leaver"};
      leaver.say_hello();
      const float before = desk.core().master()[0];
      ++leaver.sequence;
      const EncodedUpdate update = leaver.update(1.0f);
      leaver.push(update);
      Exchange goodbye = leaver.exchange_of(update);
      goodbye.leaving = true;
      CHECK(as<Granted>(desk.ask(leaver.session, goodbye)) != nullptr);
      CHECK(moved(desk, before) == 0.0f);
      desk.core().finish(desk.now);
      CHECK(desk.core().finished());
      CHECK(moved(desk, before) == doctest::Approx(1.0f));
      CHECK(desk.core().published()[0] == desk.core().master()[0]);
    }
  }
}
