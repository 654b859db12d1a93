// The conversation by hand: verdicts, refusals, lost answers, new generations.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/runtime/worker/worker_desk.h"

using namespace paceline;
using test::directive_of;
using test::MassBooks;
using test::WorkerDesk;

namespace {

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

// Connected and with one update of two steps committed; the Exchange waits for its answer.
struct Committed {
  explicit Committed(CodecId codec = CodecId::kQ8, double momentum = 0.9)
      : desk({.momentum = momentum}), directive(directive_of(2, codec)) {
    desk.connect(directive);
    books = std::make_unique<MassBooks>(desk.model.size());
    desk.core().set_observer(books.get());
    desk.work(2);
    exchange = desk.take_update();
  }
  // produced = residual + lost, element by element, to float32's rounding.
  void check_nothing_is_in_flight() {
    for (size_t i = 0; i < books->produced_sum.size(); ++i) {
      const double sum = static_cast<double>(desk.core().residual()[i]) + books->lost_sum[i];
      CHECK(sum == doctest::Approx(books->produced_sum[i]).epsilon(1e-5));
    }
  }

  WorkerDesk desk;
  Directive directive;
  std::unique_ptr<MassBooks> books;
  Exchange exchange;
};

Refused refused(const Exchange& exchange, RefusalClass refusal) {
  return {exchange.sequence, refusal, "by hand", "none"};
}

}  // namespace

TEST_SUITE("worker/exchange") {
  TEST_CASE("late: the payload is back in the residual, and goes with the next update") {
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kQ8, CodecId::kS1r}) {
      Committed at(codec);
      at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kLate));
      CHECK(at.desk.core().stats().refused_late == 1);
      CHECK(at.desk.core().stats().lost_count == 0);
      at.check_nothing_is_in_flight();

      REQUIRE(at.desk.asked<Hello>() != nullptr);
      CHECK(at.desk.asked<Hello>()->last_settled == at.exchange.sequence);
      CHECK(at.desk.asked<Hello>()->pending_sequence == 0);
      at.desk.reply(Lane::kExchange, at.desk.welcome(directive_of(2)));
      at.desk.work(2);
      const Exchange next = at.desk.take_update();
      CHECK(next.sequence > at.exchange.sequence);
      const std::vector<float> sent = at.desk.decoded();
      for (size_t i = 0; i < sent.size(); ++i)
        CHECK(static_cast<double>(sent[i]) ==
              doctest::Approx(at.books->produced_sum[i]).epsilon(1e-5));
      CHECK(all_zero(at.desk.core().residual()));
    }
  }

  TEST_CASE("late and no newer model: it goes on from its own weights, as if it had not been cut") {
    WorkerDesk whole({}), twice({});
    whole.connect(directive_of(4));
    whole.work(4);
    whole.take_update();
    twice.connect(directive_of(2));
    twice.work(2);
    twice.reply(Lane::kExchange, refused(twice.take_update(), RefusalClass::kLate));
    twice.reply(Lane::kExchange, twice.welcome(directive_of(2)));
    twice.work(2);
    twice.take_update();
    const std::vector<float> expected = whole.decoded(), sent = twice.decoded();
    for (size_t i = 0; i < sent.size(); ++i)
      CHECK(static_cast<double>(sent[i]) ==
            doctest::Approx(static_cast<double>(expected[i])).epsilon(1e-4));
  }

  TEST_CASE("late again and again: the residual stays within two updates, the rest is counted") {
    Committed at(CodecId::kQ8, 0);  // without momentum every update is about as long
    const double one = norm(at.desk.decoded());
    for (int i = 0; i < 12; ++i) {
      at.desk.reply(Lane::kExchange, refused(*at.desk.asked<Exchange>(), RefusalClass::kLate));
      CHECK(norm(at.desk.core().residual()) < 2.2 * one);
      at.check_nothing_is_in_flight();
      at.desk.reply(Lane::kExchange, at.desk.welcome(at.directive));
      at.desk.work(2);
      at.desk.take_update();
    }
    CHECK(at.desk.core().stats().lost_count > 0);
  }

  TEST_CASE("content: payload and residual are dropped, and counted as lost") {
    Committed at;
    REQUIRE_FALSE(all_zero(at.desk.core().residual()));
    at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kContent));
    CHECK(all_zero(at.desk.core().residual()));
    CHECK(at.desk.core().stats().lost_count > 0);
    CHECK(at.desk.core().stats().refused_late == 0);
    at.check_nothing_is_in_flight();
    CHECK(at.desk.asked<Hello>() != nullptr);
  }

  TEST_CASE("reset: payload, residual and model are dropped: it starts afresh from a key frame") {
    Committed at;
    at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kReset));
    CHECK(all_zero(at.desk.core().residual()));
    at.check_nothing_is_in_flight();
    REQUIRE(at.desk.asked<Hello>() != nullptr);
    CHECK(at.desk.asked<Hello>()->publication == 0);
    at.desk.reply(Lane::kExchange, at.desk.welcome(at.directive));
    REQUIRE(at.desk.asked<Fetch>() != nullptr);
    CHECK(at.desk.asked<Fetch>()->from == 0);
  }

  TEST_CASE("no answer means unknown: the same bytes are sent again, with growing pauses") {
    WorkerDesk desk({});
    desk.connect(directive_of(1));
    desk.work(2);
    const Push push = *desk.asked<Push>();
    TimeUs pause = 0;
    for (int i = 0; i < 4; ++i) {
      desk.fail(Lane::kExchange);
      CHECK(desk.asked<Push>() == nullptr);
      const TimeUs before = desk.now;
      desk.pass_timer();
      REQUIRE(desk.asked<Push>() != nullptr);
      CHECK(*desk.asked<Push>() == push);
      if (i == 3) CHECK(desk.now - before > pause);
      if (i == 0) pause = desk.now - before;
    }
    const Exchange commit = desk.take_update();
    desk.fail(Lane::kExchange);
    desk.pass_timer();
    REQUIRE(desk.asked<Exchange>() != nullptr);
    CHECK(*desk.asked<Exchange>() == commit);
    CHECK(desk.core().stats().refused_late == 0);
  }

  TEST_CASE("Wait asks the same at once; Missing pushes the same chunks again") {
    Committed at;
    at.desk.reply(Lane::kExchange, Wait{"waiting for 1 of 4 workers: greenhouse, 12 s"});
    REQUIRE(at.desk.asked<Exchange>() != nullptr);
    CHECK(*at.desk.asked<Exchange>() == at.exchange);
    CHECK(at.desk.core().waiting_for() == "waiting for 1 of 4 workers: greenhouse, 12 s");
    const std::vector<float> sent = at.desk.decoded();
    at.desk.reply(Lane::kExchange, Missing{at.exchange.sequence, {0}});
    REQUIRE(at.desk.asked<Push>() != nullptr);
    CHECK(at.desk.take_update() == at.exchange);
    CHECK(at.desk.decoded() == sent);
  }

  TEST_CASE("after a lost session the recorded verdict is carried out, whatever it is") {
    const auto after_welcome = [](Committed& at, auto change) {
      at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kStaleSession));
      REQUIRE(at.desk.asked<Hello>() != nullptr);
      CHECK(at.desk.asked<Hello>()->pending_sequence == at.exchange.sequence);
      Welcome welcome = at.desk.welcome(at.directive);
      welcome.next_sequence = at.exchange.sequence + 1;
      change(welcome);
      at.desk.reply(Lane::kExchange, welcome);
    };
    Committed applied;
    const std::vector<float> left(applied.desk.core().residual().begin(),
                                  applied.desk.core().residual().end());
    after_welcome(applied, [&](Welcome& welcome) {
      welcome.last_settled = applied.exchange.sequence;
      welcome.verdict = Verdict::kApplied;
    });
    CHECK(std::ranges::equal(applied.desk.core().residual(), left));
    CHECK(applied.desk.core().activity() == Activity::kTrain);

    Committed refusal;
    after_welcome(refusal, [&](Welcome& welcome) {
      welcome.last_settled = refusal.exchange.sequence;
      welcome.verdict = Verdict::kRefused;
    });
    // Which class of refusal it was, the server says when it is asked for the update again.
    REQUIRE(refusal.desk.asked<Exchange>() != nullptr);
    CHECK(refusal.desk.asked<Exchange>()->sequence == refusal.exchange.sequence);
    refusal.desk.reply(Lane::kExchange, refused(refusal.exchange, RefusalClass::kLate));
    refusal.check_nothing_is_in_flight();

    // A later one is settled, so another worker of this name has lived: nobody knows of this one.
    Committed overtaken;
    after_welcome(overtaken, [&](Welcome& welcome) {
      welcome.last_settled = overtaken.exchange.sequence + 3;
      welcome.verdict = Verdict::kApplied;
    });
    CHECK(all_zero(overtaken.desk.core().residual()));
    CHECK(overtaken.desk.core().stats().lost_count > 0);
    CHECK(overtaken.desk.core().activity() == Activity::kTrain);

    Committed held;
    after_welcome(held, [](Welcome& welcome) { welcome.held = true; });
    REQUIRE(held.desk.asked<Exchange>() != nullptr);
    CHECK(*held.desk.asked<Exchange>() == held.exchange);

    Committed unknown;
    const std::vector<float> sent = unknown.desk.decoded();
    after_welcome(unknown, [](Welcome&) {});
    Exchange again = unknown.desk.take_update();
    again.push_us = unknown.exchange.push_us;  // measured anew
    CHECK(again == unknown.exchange);
    CHECK(unknown.desk.decoded() == sent);
  }

  TEST_CASE("a new generation is a rollback: un-sent, residual kept, momentum dropped, key frame") {
    Committed at;
    at.desk.generation = 2;
    at.desk.reply(Lane::kExchange, at.desk.granted(at.directive));
    REQUIRE(at.desk.asked<Hello>() != nullptr);
    at.desk.reply(Lane::kExchange, at.desk.welcome(at.directive));
    CHECK(at.desk.core().stats().rolled_back == 1);
    CHECK(at.desk.core().stats().lost_count == 0);
    at.check_nothing_is_in_flight();
    REQUIRE(at.desk.asked<Fetch>() != nullptr);
    CHECK(at.desk.asked<Fetch>()->from == 0);
    CHECK(at.desk.asked<Fetch>()->generation == 2);
    at.desk.serve_model();
    CHECK(at.desk.core().activity() == Activity::kTrain);
    CHECK(at.desk.core().generation() == 2);
  }

  TEST_CASE("a new generation in which the server has applied the pending update: not twice") {
    Committed at;
    const std::vector<float> left(at.desk.core().residual().begin(),
                                  at.desk.core().residual().end());
    at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kStaleSession));
    at.desk.generation = 2;
    Welcome welcome = at.desk.welcome(at.directive);
    welcome.last_settled = at.exchange.sequence;
    welcome.verdict = Verdict::kApplied;
    at.desk.reply(Lane::kExchange, welcome);
    CHECK(at.desk.core().stats().rolled_back == 1);
    CHECK(std::ranges::equal(at.desk.core().residual(), left));
    at.desk.serve_model();
    CHECK(at.desk.core().activity() == Activity::kTrain);
  }

  TEST_CASE("a new generation in the middle of a period keeps what was trained") {
    WorkerDesk desk({});
    desk.connect(directive_of(8, CodecId::kQ8));
    MassBooks books(desk.model.size());
    desk.core().set_observer(&books);
    desk.work(3);
    desk.core().on_reply(Lane::kHeartbeat, {77, HeartbeatReply{2, 1, 1, false}}, desk.now);
    desk.core().on_timer(desk.now);
    desk.generation = 2;
    desk.core().on_reply(Lane::kExchange, {77, desk.welcome(directive_of(8))}, desk.now);
    CHECK_FALSE(all_zero(desk.core().residual()));
    for (size_t i = 0; i < books.produced_sum.size(); ++i)
      CHECK(static_cast<double>(desk.core().residual()[i]) == books.produced_sum[i]);
  }

  TEST_CASE("leave: what there is goes in Q8, said to be the last, then it stops") {
    WorkerDesk desk({});
    desk.connect(directive_of(8, CodecId::kS1r, true));
    desk.work(3);
    desk.leave();
    const Exchange exchange = desk.take_update();
    CHECK(exchange.leaving);
    CHECK(exchange.steps == 3);
    CHECK(desk.decoded_codec() == CodecId::kQ8);
    CHECK(desk.core().activity() == Activity::kIdle);
    desk.reply(Lane::kExchange, desk.granted(directive_of(8)));
    CHECK(desk.core().activity() == Activity::kStopped);
    CHECK(desk.core().failure().ok());
    CHECK(desk.core().next_timer() == kNever);
    CHECK_FALSE(desk.core().heartbeat().has_value());
  }

  TEST_CASE("leave while an update is on its way makes that one the last") {
    Committed at;
    at.desk.leave();
    REQUIRE(at.desk.asked<Exchange>() != nullptr);
    CHECK(at.desk.asked<Exchange>()->leaving);
    CHECK(at.desk.asked<Exchange>()->sequence == at.exchange.sequence);
    at.desk.reply(Lane::kExchange, refused(at.exchange, RefusalClass::kLate));
    CHECK(at.desk.core().activity() == Activity::kStopped);
    at.check_nothing_is_in_flight();
  }

  TEST_CASE("leave while the session is being renewed: it stops once the goodbye is answered") {
    for (const bool behind : {false, true}) {
      CAPTURE(behind);
      WorkerDesk desk({});
      desk.connect(directive_of(8));
      desk.work(3);
      desk.round += 1;
      desk.core().on_reply(Lane::kHeartbeat, {0, HeartbeatReply{desk.generation, 1, desk.round}},
                           desk.now);
      desk.leave();
      CHECK(desk.core().activity() == Activity::kIdle);
      if (behind) desk.publication += 1;
      desk.reply(Lane::kExchange, desk.welcome(directive_of(8)));
      if (behind) desk.serve_model();
      CHECK(desk.take_update().leaving);
      desk.reply(Lane::kExchange, desk.granted(directive_of(8)));
      CHECK(desk.core().activity() == Activity::kStopped);
    }
  }

  TEST_CASE("leave while a server that was there does not answer stops at once") {
    WorkerDesk desk({});
    desk.connect(directive_of(8));
    desk.work(3);
    desk.core().on_reply(Lane::kHeartbeat, {0, HeartbeatReply{desk.generation, 1, desk.round + 1}},
                         desk.now);
    desk.fail(Lane::kExchange);
    desk.leave();
    CHECK(desk.core().activity() == Activity::kStopped);
  }

  TEST_CASE("leave while pushing: a push that is refused does not take the goodbye with it") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    desk.work(2);
    REQUIRE(desk.asked<Push>() != nullptr);
    const uint64_t sequence = desk.asked<Push>()->sequence;
    desk.leave();
    desk.reply(Lane::kExchange, Refused{sequence, RefusalClass::kLate, "the round is over", "fix"});
    CHECK(desk.core().activity() == Activity::kIdle);
    desk.reply(Lane::kExchange, desk.welcome(directive_of(2)));
    CHECK(desk.take_update().leaving);
    desk.reply(Lane::kExchange, desk.granted(directive_of(2)));
    CHECK(desk.core().activity() == Activity::kStopped);
  }

  TEST_CASE("leave before the first answer stops at once") {
    WorkerDesk desk({});
    desk.core().start(desk.now);
    desk.leave();
    CHECK(desk.core().activity() == Activity::kStopped);
  }

  TEST_CASE("finish: the last publication is fetched, then it stops in order") {
    Committed at;
    Directive last = at.directive;
    last.finish = true;
    at.desk.grant(last);
    CHECK(at.desk.core().activity() == Activity::kStopped);
    CHECK(at.desk.core().failure().ok());
    CHECK(at.desk.core().publication() == 2);
  }

  TEST_CASE("what can't be mended by waiting stops it with the reason and the fix") {
    WorkerDesk turned_away({});
    turned_away.core().start(turned_away.now);
    turned_away.core().on_reply(
        Lane::kExchange,
        {0, Refused{0, RefusalClass::kNotAllowed, "its rows have 5 values", "give the right data"}},
        turned_away.now);
    CHECK(turned_away.core().activity() == Activity::kStopped);
    CHECK(turned_away.core().failure().message() == "its rows have 5 values; give the right data");

    for (const bool wrong_run : {false, true}) {
      WorkerDesk desk({});
      desk.core().start(desk.now);
      Welcome welcome = desk.welcome(directive_of(1));
      if (wrong_run)
        welcome.run = "[model]\n";
      else
        welcome.protocol = kProtocol + 1;
      desk.core().on_reply(Lane::kExchange, {77, welcome}, desk.now);
      CHECK(desk.core().activity() == Activity::kStopped);
      CHECK_FALSE(desk.core().failure().ok());
    }
  }

  TEST_CASE("answers of another kind, session or sequence change nothing; it asks again later") {
    Committed at;
    const auto unchanged = [&](const Message& message, uint64_t session = 77) {
      const size_t asked = at.desk.request_count(Lane::kExchange);
      at.desk.core().on_reply(Lane::kExchange, {session, message}, at.desk.now);
      const bool quiet =
          at.desk.core().take_outgoing().empty() && at.desk.core().stats().exchanges == 0 &&
          at.desk.core().stats().lost_count == 0 && at.desk.core().activity() == Activity::kIdle;
      at.desk.pass_timer();
      return quiet && at.desk.request_count(Lane::kExchange) == asked + 1 &&
             at.desk.asked<Exchange>() != nullptr && *at.desk.asked<Exchange>() == at.exchange;
    };
    Granted other = at.desk.granted(at.directive);
    other.sequence += 1;
    CHECK(unchanged(other));
    CHECK(unchanged(Got{at.exchange.sequence, 0}));
    CHECK(unchanged(Fetched{}));
    CHECK(unchanged(Close{1}));
    CHECK(unchanged(at.desk.welcome(at.directive)));
    CHECK(unchanged(Missing{at.exchange.sequence + 1, {0}}));
    CHECK(unchanged(refused(at.exchange, RefusalClass::kContent), 5));
  }
}
