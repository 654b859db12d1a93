// Who is let in, who counts, with what weight.
#include <doctest/doctest.h>

#include "tests/server/server_desk.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::refusal_of;
using test::ServerDesk;

namespace {

size_t counted(ServerDesk& desk) {
  size_t count = 0;
  for (const Member& member : desk.core().members()) count += member.counted ? 1 : 0;
  return count;
}

}  // namespace

TEST_SUITE("server/session") {
  TEST_CASE("a session that is not known here is told to say hello again") {
    ServerDesk desk(desk_options("bsp"));
    for (const uint64_t session : {uint64_t{0}, uint64_t{77}})
      for (const Message& request : {Message(Exchange{}), Message(Push{}), Message(Ready{}),
                                     Message(Fetch{}), Message(Heartbeat{})})
        CHECK(refusal_of(desk.ask(session, request)) == RefusalClass::kStaleSession);
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    CHECK(refusal_of(desk.ask(worker.session, Granted{})) == RefusalClass::kNotAllowed);
  }

  TEST_CASE("a certificate's name is the worker's, and its sessions are nobody else's") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    desk.peer_identity = "b";
    const std::optional<Message> answer = worker.say_hello();
    REQUIRE(as<Refused>(answer) != nullptr);
    CHECK(as<Refused>(answer)->refusal == RefusalClass::kNotAllowed);
    CHECK(as<Refused>(answer)->reason == "its certificate is of 'b' and it calls itself 'a'");
    CHECK_FALSE(as<Refused>(answer)->fix.empty());
    CHECK(desk.core().members().empty());
    desk.peer_identity = "a";
    worker.say_hello();
    CHECK(as<HeartbeatReply>(desk.ask(worker.session, Heartbeat{})) != nullptr);
    desk.peer_identity = "b";
    CHECK(refusal_of(desk.ask(worker.session, Heartbeat{})) == RefusalClass::kStaleSession);
    CHECK(refusal_of(desk.ask(worker.session, Exchange{})) == RefusalClass::kStaleSession);
  }

  TEST_CASE(
      "two boards that work with one key for a minute are both refused, until it is revoked") {
    for (const bool fleet : {true, false}) {
      ServerDesk desk(desk_options("bsp"));
      desk.peer_identity = fleet ? "a" : "";
      HandWorker board{&desk, "a"}, copy{&desk, "a"};
      copy.incarnation = 2;
      board.say_hello();
      const auto both_for = [&](int seconds) {
        std::optional<Message> answer;
        for (int i = 0; i < seconds; ++i) {
          desk.ask(board.session, Heartbeat{});
          answer = copy.say_hello();
          desk.pass(from_ms(1000));
        }
        return refusal_of(answer);
      };
      CHECK(both_for(60) == RefusalClass::kStaleSession);
      CHECK(both_for(5) == (fleet ? RefusalClass::kNotAllowed : RefusalClass::kStaleSession));
      if (!fleet) continue;
      CHECK(refusal_of(desk.ask(board.session, Heartbeat{})) == RefusalClass::kStaleSession);
      CHECK(refusal_of(std::optional(board.say_hello())) == RefusalClass::kNotAllowed);
      desk.core().expel("a", fail(Code::kRefused, "'a' is revoked; enrol it again"), desk.now);
      board.say_hello();
      CHECK(as<HeartbeatReply>(desk.ask(board.session, Heartbeat{})) != nullptr);
    }
  }

  TEST_CASE("a board that is started again and again is no copied card") {
    ServerDesk desk(desk_options("bsp"));
    desk.peer_identity = "a";
    HandWorker board{&desk, "a"};
    for (int life = 0; life < 40; ++life) {
      ++board.incarnation;
      for (int i = 0; i < 5; ++i, desk.pass(from_ms(1000))) board.say_hello();
      CHECK(as<HeartbeatReply>(desk.ask(board.session, Heartbeat{})) != nullptr);
    }
  }

  TEST_CASE("who is expelled is told why, its update is not applied, and the others go on") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker a{&desk, "a"}, b{&desk, "b"};
    test::join({&a, &b});
    const float before = desk.core().master()[0];
    CHECK_FALSE(b.exchange(1.0f).has_value());  // parked
    desk.core().expel("b", fail(Code::kRefused, "'b' is revoked; enrol it again"), desk.now);
    const std::optional<Message> told = b.late_answer();
    REQUIRE(as<Refused>(told) != nullptr);
    CHECK(as<Refused>(told)->refusal == RefusalClass::kNotAllowed);
    CHECK(as<Refused>(told)->reason == "'b' is revoked");
    CHECK(as<Refused>(told)->fix == "enrol it again");
    CHECK(as<Granted>(a.exchange(0.25f)) != nullptr);
    CHECK(test::moved(desk, before) == 0.25f);
    CHECK(refusal_of(desk.ask(b.session, Heartbeat{})) == RefusalClass::kStaleSession);
    desk.core().expel("nobody", fail(Code::kRefused, "why"), desk.now);
  }

  TEST_CASE("whose data or protocol does not fit is turned away with what is wrong and the fix") {
    ServerDesk desk(desk_options("bsp"));
    const auto refused = [&](auto spoil) {
      Hello hello;
      hello.name = "a";
      hello.incarnation = 1;
      hello.training_rows = 100;
      hello.feature_count = 4;
      hello.class_count = 3;
      spoil(hello);
      const std::optional<Message> answer = desk.ask(0, hello);
      const auto* found = as<Refused>(answer);
      if (found == nullptr) return false;
      CHECK(found->refusal == RefusalClass::kNotAllowed);
      CHECK_FALSE(found->reason.empty());
      CHECK_FALSE(found->fix.empty());
      return true;
    };
    CHECK(refused([](Hello& h) { h.feature_count = 5; }));
    CHECK(refused([](Hello& h) { h.class_count = 4; }));
    CHECK(refused([](Hello& h) { h.protocol_min = h.protocol_max = kProtocol + 1; }));
    CHECK(refused([](Hello& h) { h.protocol_min = h.protocol_max = kProtocolMin - 1; }));
    CHECK(refused([](Hello& h) { h.name.clear(); }));
    CHECK(desk.core().members().empty());
    CHECK_FALSE(refused([](Hello& h) { h.class_count = 2; }));  // a board may not know every class
  }

  TEST_CASE("a private run takes no worker that does not know what that asks of it") {
    ServerOptions options = desk_options("bsp");
    options.run.privacy = PrivacySpec{.clip = 0.1, .noise = 1};
    ServerDesk desk(std::move(options));
    Hello hello;
    hello.name = "old";
    hello.incarnation = 1;
    hello.training_rows = 100;
    hello.feature_count = 4;
    hello.class_count = 3;
    hello.protocol_max = kProtocolPrivate - 1;
    CHECK(refusal_of(desk.ask(0, hello)) == RefusalClass::kNotAllowed);
    hello.protocol_max = kProtocolPrivate;
    const std::optional<Message> answer = desk.ask(0, hello);
    REQUIRE(as<Welcome>(answer) != nullptr);
    CHECK(as<Welcome>(answer)->protocol == kProtocolPrivate);
  }

  TEST_CASE("a run that names its columns lets everybody in; a second Hello says what was found") {
    ServerOptions options = desk_options("bsp");
    options.columns_by_name = true;
    ServerDesk desk(std::move(options));
    Hello hello;
    hello.name = "a";
    hello.incarnation = 1;
    const std::optional<Message> first = desk.ask(0, hello);
    REQUIRE(as<Welcome>(first) != nullptr);
    CHECK(desk.core().members()[0].observes());
    hello.training_rows = 100;
    hello.feature_count = 4;
    hello.class_count = 3;
    const std::optional<Message> second = desk.ask(0, hello);
    REQUIRE(as<Welcome>(second) != nullptr);
    CHECK(as<Welcome>(second)->session != as<Welcome>(first)->session);
    CHECK(desk.core().members().size() == 1);
    CHECK(desk.core().members()[0].training_rows == 100);
  }

  TEST_CASE("a living worker keeps its name; another life gets it after three missed heartbeats") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    HandWorker other{&desk, "a"};
    other.incarnation = 2;
    const std::optional<Message> answer = other.say_hello();
    REQUIRE(as<Refused>(answer) != nullptr);
    CHECK(as<Refused>(answer)->reason.find("'a'") != std::string::npos);
    CHECK(as<Granted>(worker.exchange(0.0f)) != nullptr);
    desk.pass(3 * from_ms(1000));
    CHECK(as<Refused>(std::optional<Message>(other.say_hello())) != nullptr);
    desk.pass(1);
    CHECK(as<Welcome>(std::optional<Message>(other.say_hello())) != nullptr);
    CHECK(refusal_of(desk.ask(worker.session, Heartbeat{})) == RefusalClass::kStaleSession);
  }

  TEST_CASE("a newcomer counts from its first report on, and in rounds from the next one") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker first{&desk, "a"}, second{&desk, "b"};
    first.say_hello();
    CHECK(counted(desk) == 0);  // Hello alone promises nothing
    first.exchange(0.0f);
    CHECK(counted(desk) == 1);
    second.say_hello();
    desk.ask(second.session, Heartbeat{1, 0, 1, 1000, false});  // no step yet
    CHECK_FALSE(desk.core().members()[1].eligible);
    second.beat();
    CHECK(desk.core().members()[1].eligible);
    CHECK(counted(desk) == 1);  // this round is the first one's
    CHECK(as<Granted>(first.exchange(0.0f)) != nullptr);
    CHECK(counted(desk) == 2);
    CHECK_FALSE(first.exchange(0.0f).has_value());
    CHECK(as<Granted>(second.exchange(0.0f)) != nullptr);
    CHECK(as<Granted>(first.late_answer()) != nullptr);
  }

  TEST_CASE("who brings too few rows observes: it is in no close") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker board{&desk, "a"}, small{&desk, "b", 19};
    board.say_hello();
    small.say_hello();
    board.exchange(0.0f);
    desk.ask(small.session, Heartbeat{1, 5, 1, 1000, false});
    for (int i = 0; i < 3; ++i) CHECK(as<Granted>(board.exchange(0.0f)) != nullptr);
    CHECK(counted(desk) == 1);
  }

  TEST_CASE("weights are shares of the rows, capped at ten times the median") {
    ServerDesk desk(desk_options("asp"));
    HandWorker a{&desk, "a", 100}, b{&desk, "b", 100}, c{&desk, "c", 5000};
    test::join({&a, &b, &c});
    CHECK(desk.core().members()[0].weight == round_weight(0.1));
    CHECK(desk.core().members()[1].weight == round_weight(0.1));
    CHECK(desk.core().members()[2].weight == 1.0f);
    HandWorker d{&desk, "d", 400};
    d.say_hello();
    d.exchange(0.0f);  // the lower one of two medians counts: still 100
    CHECK(desk.core().members()[0].weight == round_weight(0.1));
    CHECK(desk.core().members()[3].weight == round_weight(0.4));
    // Two boards: the larger one must not set the cap of both.
    ServerDesk two(desk_options("asp"));
    HandWorker small{&two, "a", 100}, huge{&two, "b", 100'000};
    test::join({&small, &huge});
    CHECK(two.core().members()[0].weight == round_weight(0.1));
  }

  TEST_CASE("an update moves the model by its share of what the pace divides by") {
    for (const char* pace : {"bsp", "asp"}) {
      ServerDesk desk(desk_options(pace));
      HandWorker big{&desk, "a", 300}, little{&desk, "b", 100};
      test::join({&big, &little});
      const double share = static_cast<double>(round_weight(1.0 / 3));
      const float before = desk.core().master()[0];
      little.exchange(1.0f);
      // asp: of the weights of all members, at once; bsp: when the other one has come.
      if (std::string(pace) == "asp")
        CHECK(test::moved(desk, before) == doctest::Approx(share / (1 + share)));
      else
        CHECK(test::moved(desk, before) == 0);
      big.exchange(0.0f);
      CHECK(test::moved(desk, before) == doctest::Approx(share / (1 + share)));
    }
  }

  TEST_CASE("until min_workers are there nobody's round closes, and the wait says so") {
    ServerOptions options = desk_options("bsp");
    options.min_workers = 2;
    options.exchange_deadline_ms = 30'000;
    ServerDesk desk(std::move(options));
    HandWorker first{&desk, "a"}, second{&desk, "b"};
    first.say_hello();
    CHECK_FALSE(first.exchange(0.0f).has_value());
    CHECK(desk.core().next_timer() == desk.now + from_ms(15'000));
    for (int i = 0; i < 14; ++i) {
      desk.pass(from_ms(1000));
      first.beat();
    }
    desk.pass(from_ms(1000) - 1);
    CHECK_FALSE(first.late_answer().has_value());
    desk.pass(1);
    const std::optional<Message> wait = first.late_answer();
    REQUIRE(as<Wait>(wait) != nullptr);
    CHECK(as<Wait>(wait)->reason == "1 of 2 workers are there");

    // Asked again it waits again, as the same update; then the second one comes.
    desk.ask(first.session, first.exchange_of(first.update(0.0f)));
    first.exchange_token = desk.last_token;
    second.say_hello();
    CHECK(as<Granted>(second.exchange(0.0f)) != nullptr);
    CHECK(as<Granted>(first.late_answer()) != nullptr);
    CHECK(desk.core().version() == 1);
  }

  TEST_CASE("of two parked requests of one worker the newer stays, the older is told to wait") {
    ServerOptions options = desk_options("bsp");
    options.min_workers = 2;
    ServerDesk desk(std::move(options));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    worker.exchange(0.0f);
    CHECK_FALSE(desk.ask(worker.session, worker.exchange_of(worker.update(0.0f))).has_value());
    CHECK(as<Wait>(worker.late_answer()) != nullptr);
  }

  TEST_CASE("what an earlier life had parked is answered when another life begins") {
    ServerOptions options = desk_options("compat");
    options.min_workers = 2;
    ServerDesk desk(std::move(options));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    CHECK_FALSE(worker.exchange(0.1f).has_value());
    CHECK_FALSE(desk.ask(worker.session, Ready{1, 1, 4}).has_value());
    const uint64_t ready_token = desk.last_token;
    desk.pass(from_ms(3001));
    worker.incarnation = 2;
    worker.say_hello();
    CHECK(refusal_of(worker.late_answer()) == RefusalClass::kStaleSession);
    CHECK(refusal_of(desk.answer(ready_token)) == RefusalClass::kStaleSession);
  }

  TEST_CASE("who leaves is out of the close and the divisor at once, and its update still counts") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker stays{&desk, "a"}, leaves{&desk, "b"}, third{&desk, "c"};
    test::join({&stays, &leaves, &third});
    const uint64_t version = desk.core().version();
    const float before = desk.core().master()[0];
    const EncodedUpdate update = leaves.update(1.0f);
    ++leaves.sequence;
    leaves.push(update);
    Exchange goodbye = leaves.exchange_of(update);
    goodbye.leaving = true;
    CHECK(as<Granted>(desk.ask(leaves.session, goodbye)) != nullptr);
    CHECK(counted(desk) == 2);
    CHECK(desk.core().version() == version);
    stays.exchange(0.0f);
    CHECK(as<Granted>(third.exchange(0.0f)) != nullptr);
    CHECK(test::moved(desk, before) == doctest::Approx(1.0 / 3));
    // The next round is without it.
    stays.exchange(0.0f);
    CHECK(as<Granted>(third.exchange(1.0f)) != nullptr);
    CHECK(test::moved(desk, before) == doctest::Approx(1.0 / 3 + 1.0 / 2));
  }

  TEST_CASE("a worker that holds a publication which was never made here changes nothing") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker honest{&desk, "a"};
    honest.say_hello();
    for (int i = 0; i < 3; ++i) honest.exchange(0.01f);
    const uint64_t publication = desk.core().publication();
    Hello hello;
    hello.name = "b";
    hello.incarnation = 1;
    hello.training_rows = 100;
    hello.feature_count = 4;
    hello.class_count = 3;
    hello.generation = 1;
    hello.publication = publication + 1;
    const std::optional<Message> answer = desk.ask(0, hello);
    REQUIRE(as<Welcome>(answer) != nullptr);
    CHECK(as<Welcome>(answer)->generation == 1);
    CHECK(as<Welcome>(answer)->publication == publication);
    CHECK(desk.core().generation() == 1);
    // What it asks for from there is a key frame, and what it bases on it is late.
    const uint64_t session = as<Welcome>(answer)->session;
    const std::optional<Message> fetched =
        desk.ask(session, Fetch{1, publication + 1, publication, 0, false});
    REQUIRE(as<Fetched>(fetched) != nullptr);
    CHECK(as<Fetched>(fetched)->key_frame);
    CHECK(as<Granted>(honest.exchange(0.01f)) != nullptr);
  }

  TEST_CASE("Welcome vouches for the start while the way from there is shorter than a key frame") {
    ServerOptions options = desk_options("bsp", 600, 300);
    options.codec_down = CodecId::kQ8;
    ServerDesk desk(std::move(options));
    HandWorker early{&desk, "a"};
    early.say_hello();
    const uint32_t start = desk.core().checksum();
    CHECK(early.welcome.start_checksum == start);
    for (uint64_t publication = 2; publication < 6; ++publication) {
      REQUIRE(as<Granted>(early.exchange(0.01f)) != nullptr);
      REQUIRE(desk.core().publication() == publication);
      HandWorker late{&desk, format_text("b%d", static_cast<int>(publication))};
      late.rows = 1;  // too few to be waited for
      late.say_hello();
      // Four deltas of eight bits are as long as all the values.
      CHECK(late.welcome.start_checksum == (publication < 5 ? start : 0));
    }
  }

  TEST_CASE("one false sequence number does not use up a name") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    for (const uint64_t number : {UINT64_MAX, uint64_t{1} << 40}) {
      worker.sequence = number;
      CHECK(refusal_of(worker.say_hello()) == RefusalClass::kNotAllowed);
    }
    worker.sequence = 7;
    worker.say_hello();
    CHECK(worker.welcome.next_sequence == 8);
    const EncodedUpdate update = worker.update(1.0f);
    for (const uint64_t number : {UINT64_MAX, uint64_t{1} << 40}) {
      worker.sequence = number;
      CHECK(refusal_of(desk.ask(worker.session, worker.push_of(update, 0))) ==
            RefusalClass::kStaleSession);
      CHECK(refusal_of(desk.ask(worker.session, worker.exchange_of(update))) ==
            RefusalClass::kStaleSession);
    }
    worker.sequence = 7;
    worker.say_hello();
    CHECK(worker.welcome.next_sequence == 8);
    CHECK(as<Granted>(worker.exchange(1.0f)) != nullptr);
    CHECK(desk.core().version() == 1);
  }
}
