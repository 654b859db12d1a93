// Updates by hand: staged, committed once, held, refused with a class, recorded for ever.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/server/server_desk.h"
#include "tests/support/hostile_payloads.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::refusal_of;
using test::ServerDesk;

namespace {

constexpr TimeUs kGone = 3 * from_ms(1000) + 1;  // three heartbeats missed

}  // namespace

TEST_SUITE("server/exchange") {
  TEST_CASE("an exchange that comes twice is applied once, and granted twice") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const float before = desk.core().master()[0];
    const EncodedUpdate update = worker.update(1.0f);
    ++worker.sequence;
    const Exchange exchange = worker.exchange_of(update);
    worker.push(update);
    const std::optional<Message> first = desk.ask(worker.session, exchange);
    REQUIRE(as<Granted>(first) != nullptr);
    CHECK(as<Granted>(first)->sequence == 1);
    CHECK(desk.core().version() == 1);
    CHECK(test::moved(desk, before) == doctest::Approx(1));

    worker.push(update);  // late copies of its chunks are taken for such
    const std::optional<Message> second = desk.ask(worker.session, exchange);
    REQUIRE(as<Granted>(second) != nullptr);
    CHECK(as<Granted>(second)->sequence == 1);
    CHECK(desk.core().version() == 1);
    CHECK(test::moved(desk, before) == doctest::Approx(1));
  }

  TEST_CASE("a refusal is a verdict: the same update gets it again, whatever has changed") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const EncodedUpdate update = worker.update(1.0f);
    ++worker.sequence;
    worker.push(update);
    Exchange stale = worker.exchange_of(update);
    stale.round += 1;
    CHECK(refusal_of(desk.ask(worker.session, stale)) == RefusalClass::kLate);
    worker.push(update);
    CHECK(refusal_of(desk.ask(worker.session, worker.exchange_of(update))) == RefusalClass::kLate);
    CHECK(desk.core().version() == 0);
    CHECK(desk.core().members()[0].refused == 1);
    worker.say_hello();
    CHECK(worker.welcome.last_settled == 1);
    CHECK(worker.welcome.verdict == Verdict::kRefused);
    CHECK(worker.welcome.next_sequence == 2);
  }

  TEST_CASE("late: another base checksum, an unknown base, another generation, a closed round") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const auto refusal = [&](auto spoil) {
      const EncodedUpdate update = worker.update(1.0f);
      ++worker.sequence;
      worker.push(update);
      Exchange exchange = worker.exchange_of(update);
      spoil(exchange);
      return refusal_of(desk.ask(worker.session, exchange));
    };
    CHECK(refusal([](Exchange& e) { e.base_checksum ^= 1; }) == RefusalClass::kLate);
    CHECK(refusal([](Exchange& e) { e.base_publication += 1; }) == RefusalClass::kLate);
    CHECK(refusal([](Exchange& e) { e.base_publication = 0; }) == RefusalClass::kLate);
    CHECK(refusal([](Exchange& e) { e.generation += 1; }) == RefusalClass::kLate);
    CHECK(refusal([](Exchange& e) { e.round -= 1; }) == RefusalClass::kLate);
    CHECK(refusal([](Exchange& e) { e.steps = 0; }) == RefusalClass::kContent);
    CHECK(refusal([](Exchange& e) { e.steps = 4 * kTauMax + 1; }) == RefusalClass::kContent);
    CHECK(desk.core().version() == 0);
    CHECK(as<Granted>(worker.exchange(1.0f)) != nullptr);
  }

  TEST_CASE("a model up to 50 publications old is taken, an older one is reset") {
    ServerDesk desk(desk_options("asp"));
    HandWorker fast{&desk, "fast"}, slow{&desk, "slow"};
    fast.say_hello();
    slow.say_hello();
    const auto publish_until = [&](uint64_t publication) {
      while (desk.core().publication() < publication) {
        desk.now += 1'000'000;
        REQUIRE(as<Granted>(fast.exchange(0.01f)) != nullptr);
      }
    };
    const auto send_on_first = [&] {
      const EncodedUpdate update = slow.update(0.01f);
      ++slow.sequence;
      slow.push(update);
      Exchange exchange = slow.exchange_of(update);
      exchange.base_publication = 1;
      exchange.base_checksum = slow.welcome.checksum;
      return desk.ask(slow.session, exchange);
    };
    publish_until(51);
    CHECK(as<Granted>(send_on_first()) != nullptr);
    publish_until(52);
    CHECK(refusal_of(send_on_first()) == RefusalClass::kReset);
  }

  TEST_CASE("who is always far behind is not reset for it: four times its usual gap are allowed") {
    ServerDesk desk(desk_options("asp"));
    HandWorker fast{&desk, "fast"}, slow{&desk, "slow"};
    fast.say_hello();
    slow.say_hello();
    const auto send_behind = [&](uint64_t gap) {
      const uint64_t base = desk.core().publication();
      const uint32_t checksum = desk.core().checksum();
      while (desk.core().publication() < base + gap) {
        desk.now += 1'000'000;
        REQUIRE(as<Granted>(fast.exchange(0.01f)) != nullptr);
      }
      const EncodedUpdate update = slow.update(0.01f);
      ++slow.sequence;
      slow.push(update);
      Exchange exchange = slow.exchange_of(update);
      exchange.base_publication = base;
      exchange.base_checksum = checksum;
      return desk.ask(slow.session, exchange);
    };
    CHECK(refusal_of(send_behind(90)) == RefusalClass::kReset);
    for (int i = 0; i < 30; ++i) CHECK(as<Granted>(send_behind(40)) != nullptr);
    CHECK(as<Granted>(send_behind(90)) != nullptr);
    CHECK(refusal_of(send_behind(300)) == RefusalClass::kReset);
  }

  TEST_CASE("a commit without its chunks names those that are missing, and nothing is lost") {
    ServerDesk desk(desk_options("bsp", 600, 300));
    REQUIRE(desk.layout().chunk_count() == 2);
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const EncodedUpdate update = worker.update(0.5f);
    ++worker.sequence;
    const auto missing = [&](const Exchange& exchange) {
      const std::optional<Message> answer = desk.ask(worker.session, exchange);
      REQUIRE(as<Missing>(answer) != nullptr);
      CHECK(as<Missing>(answer)->sequence == worker.sequence);
      return as<Missing>(answer)->chunks;
    };
    CHECK(missing(worker.exchange_of(update)) == std::vector<uint32_t>{0, 1});
    desk.ask(worker.session, worker.push_of(update, 1));
    CHECK(missing(worker.exchange_of(update)) == std::vector<uint32_t>{0});
    desk.ask(worker.session, worker.push_of(update, 0));
    Exchange other = worker.exchange_of(update);
    other.update_checksum ^= 1;
    CHECK(missing(other) == std::vector<uint32_t>{0, 1});
    CHECK(as<Granted>(desk.ask(worker.session, worker.exchange_of(update))) != nullptr);
    CHECK(desk.core().version() == 1);
  }

  TEST_CASE("chunks whose checksum as a whole is not what was said are all asked for again") {
    ServerDesk desk(desk_options("bsp", 600, 300));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    EncodedUpdate update = worker.update(0.5f);
    const EncodedUpdate other = worker.update(0.25f);
    ++worker.sequence;
    update.chunks[1] = other.chunks[1];  // legal by itself
    worker.push(update);
    const std::optional<Message> answer = desk.ask(worker.session, worker.exchange_of(update));
    REQUIRE(as<Missing>(answer) != nullptr);
    CHECK(as<Missing>(answer)->chunks == std::vector<uint32_t>{0, 1});
  }

  TEST_CASE("a payload that is not what its format says is refused as content, and is a verdict") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const EncodedUpdate update = worker.update(1.0f);
    ++worker.sequence;
    Push bad = worker.push_of(update, 0);
    bad.payload.back() ^= std::byte{1};
    CHECK(refusal_of(desk.ask(worker.session, bad)) == RefusalClass::kContent);
    CHECK(desk.core().members()[0].last_settled == 1);
    CHECK(refusal_of(desk.ask(worker.session, worker.exchange_of(update))) ==
          RefusalClass::kContent);
    ++worker.sequence;
    Push outside = worker.push_of(update, 0);
    outside.chunk_count = 2;
    outside.chunk = 1;
    CHECK(refusal_of(desk.ask(worker.session, outside)) == RefusalClass::kContent);
    CHECK(as<Granted>(worker.exchange(1.0f)) != nullptr);
  }

  TEST_CASE("every hostile payload is refused for its reason, and leaves no trace") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker honest{&desk, "a"}, mallory{&desk, "b"};
    test::join({&honest, &mallory});
    std::vector<float> ones(desk.layout().element_count()), residual(ones.size());
    ones[0] = 1.0f;
    EncodedUpdate good;
    REQUIRE(encode_update(desk.layout(), CodecId::kQ8, {3, 1}, ones, residual, &good).ok());
    const Bytes before = desk.core().save();
    const std::vector<float> master(desk.core().master().begin(), desk.core().master().end());
    const uint64_t version = desk.core().version();
    for (const test::HostilePayload& hostile : test::hostile_payloads(good.chunks[0])) {
      CAPTURE(hostile.name);
      ++mallory.sequence;
      Push push = mallory.push_of(good, 0);
      push.payload = hostile.payload;
      const std::optional<Message> answer = desk.ask(mallory.session, push);
      REQUIRE(as<Refused>(answer) != nullptr);
      CHECK(as<Refused>(answer)->refusal == RefusalClass::kContent);
      CHECK_MESSAGE(as<Refused>(answer)->reason.find(hostile.reason) != std::string::npos,
                    as<Refused>(answer)->reason);
      CHECK(desk.core().members()[1].staging.chunks.empty());
      // A verdict is for ever, and no commit brings it back.
      CHECK(refusal_of(desk.ask(mallory.session, mallory.exchange_of(good))) ==
            RefusalClass::kContent);
    }
    CHECK(std::ranges::equal(desk.core().master(), master));
    CHECK(desk.core().version() == version);
    CHECK(desk.core().save().size() == before.size());
    // The round goes on for both.
    CHECK_FALSE(honest.exchange(1.0f).has_value());
    CHECK(as<Granted>(mallory.exchange(1.0f)) != nullptr);
    CHECK(test::moved(desk, master[0]) == doctest::Approx(1));
  }

  TEST_CASE("an exchange without an update counts for the close and moves nothing") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const float before = desk.core().master()[0];
    ++worker.sequence;
    Exchange empty = worker.exchange_of({});
    REQUIRE(empty.chunk_count == 0);
    CHECK(as<Granted>(desk.ask(worker.session, empty)) != nullptr);
    CHECK(desk.core().round() == 2);
    CHECK(test::moved(desk, before) == 0);
    CHECK(desk.core().members()[0].verdict == Verdict::kApplied);
  }

  TEST_CASE("another life of a worker loses what it staged and keeps what it committed") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker other{&desk, "b"}, worker{&desk, "a"};
    test::join({&other, &worker});
    const uint64_t round = desk.core().round();
    const float before = desk.core().master()[0];

    REQUIRE_FALSE(worker.exchange(1.0f).has_value());  // held
    const uint64_t committed = worker.sequence;
    ++worker.sequence;
    worker.push(worker.update(9.0f));  // staged

    // Its first life is not heard of any more; the round still waits for the other one.
    desk.now += kGone;
    other.beat();
    desk.pass(0);
    worker.incarnation = 2;
    worker.sequence = 0;
    worker.say_hello();
    CHECK(worker.welcome.held);
    CHECK(worker.welcome.next_sequence == committed + 2);
    CHECK(desk.core().members()[1].staging.chunks.empty());
    CHECK(desk.core().round() == round);

    // The new life is refused in this round: its place is taken, and nothing of either is lost.
    worker.sequence = committed + 1;
    const std::optional<Message> again = worker.exchange(5.0f);
    CHECK(refusal_of(again) == RefusalClass::kLate);

    other.exchange(0.0f);
    CHECK(desk.core().round() == round + 1);
    CHECK(test::moved(desk, before) == doctest::Approx(0.5));
    // What is settled never goes back.
    CHECK(desk.core().members()[1].last_settled == committed + 2);
    CHECK(desk.core().members()[1].verdict == Verdict::kRefused);
  }

  TEST_CASE("what a leaver was granted is in the last state, though no round took it") {
    for (const char* pace : {"bsp", "asp"})
      for (const bool alone : {true, false}) {
        ServerDesk desk(desk_options(pace));
        HandWorker stays{&desk, "a"}, leaves{&desk, "b"};
        if (alone)
          test::join({&leaves});
        else
          test::join({&leaves, &stays});
        const float before = desk.core().master()[0];
        const EncodedUpdate update = leaves.update(1.0f);
        ++leaves.sequence;
        leaves.push(update);
        Exchange goodbye = leaves.exchange_of(update);
        goodbye.leaving = true;
        CHECK(as<Granted>(desk.ask(leaves.session, goodbye)) != nullptr);
        desk.core().suspend();
        // asp has applied it before, in the divisor of those who stay.
        const bool halved = !alone && std::string(pace) == "bsp";
        CHECK(test::moved(desk, before) == doctest::Approx(halved ? 0.5 : 1));
        for (const Member& member : desk.core().members())
          if (member.name == "b") CHECK(member.last_settled == leaves.sequence);
      }
  }

  TEST_CASE("a request of an earlier life is told that its session is stale") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    const HandWorker earlier = worker;
    desk.pass(kGone);
    worker.incarnation = 2;
    worker.say_hello();
    const EncodedUpdate update = worker.update(1.0f);
    // In the old session, and with the old incarnation in the new one.
    CHECK(refusal_of(desk.ask(earlier.session, earlier.exchange_of(update))) ==
          RefusalClass::kStaleSession);
    CHECK(refusal_of(desk.ask(worker.session, earlier.exchange_of(update))) ==
          RefusalClass::kStaleSession);
    CHECK(refusal_of(desk.ask(worker.session, earlier.push_of(update, 0))) ==
          RefusalClass::kStaleSession);
    CHECK(refusal_of(desk.ask(worker.session, Ready{1, 1, 1})) == RefusalClass::kStaleSession);
    CHECK(desk.core().version() == 0);
  }

  TEST_CASE("evaluations are summed over the members; what can't be true is not counted") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker a{&desk, "a", 100, 20}, b{&desk, "b", 100, 30}, liar{&desk, "c", 100, 10};
    test::join({&a, &b, &liar});
    const auto report = [&](HandWorker& worker, Evaluation evaluation) {
      ++worker.sequence;
      Exchange exchange = worker.exchange_of({});
      evaluation.publication = desk.core().publication();
      exchange.evaluations = {evaluation, evaluation};  // said twice, counted once
      desk.ask(worker.session, exchange);
    };
    const uint64_t before = desk.core().evaluation_count();
    report(a, {0, 20, 15, 20u << 16});
    report(liar, {0, 10, 11, 10u << 16});  // more correct rows than rows
    report(b, {0, 30, 15, 15u << 16});
    // 50 of 60 held-out rows are too few for an evaluation of the fleet.
    CHECK(desk.core().evaluation_count() == before);
    report(a, {0, 20, 15, 20u << 16});
    report(liar, {0, 10, 5, 10u << 16});
    report(b, {0, 30, 15, 15u << 16});
    REQUIRE(desk.core().evaluation_count() == before + 1);
    CHECK(desk.core().last_evaluation()->rows == 60);
    CHECK(desk.core().last_evaluation()->correct == 35);
    CHECK(desk.core().last_evaluation()->loss == doctest::Approx(45.0 / 60));
    // Who said 30 may hold fewer at the moment: it has reported all the same.
    report(a, {0, 20, 15, 20u << 16});
    report(liar, {0, 10, 5, 10u << 16});
    report(b, {0, 3, 2, 3u << 16});
    REQUIRE(desk.core().evaluation_count() == before + 2);
    CHECK(desk.core().last_evaluation()->rows == 33);
  }
}
