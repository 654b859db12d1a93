// What outlives a worker's process, and when it is still true.
#include "runtime/worker/worker_state.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/random.h"
#include "tests/runtime/worker/worker_desk.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::directive_of;
using test::WorkerDesk;

namespace {

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// A worker with momentum, a residual, one update settled, and a second one on its way.
struct Stopped {
  WorkerDesk desk{{.momentum = 0.9}};
  Bytes idle;                   // saved while nothing was pending
  std::vector<float> residual;  // then
  Bytes busy;                   // saved while update 2 was pending
  std::vector<float> left;      // residual then
  Exchange exchange;            // of update 2
  std::vector<float> sent;

  Stopped() {
    desk.connect(directive_of(2, CodecId::kQ8));
    desk.work(2);
    desk.take_update();
    desk.grant(directive_of(2, CodecId::kQ8));
    idle = desk.core().save();
    residual = copy_of(desk.core().residual());
    desk.work(2);
    exchange = desk.take_update();
    sent = desk.decoded();
    busy = desk.core().save();
    left = copy_of(desk.core().residual());
  }
};

// The next life, up to what it does after a Welcome in which the server has settled so much.
struct NextLife {
  WorkerDesk desk{{.momentum = 0.9}};

  NextLife(const Bytes& state, uint64_t settled, Verdict verdict = Verdict::kApplied,
           bool held = false, uint64_t generation = 1) {
    REQUIRE(desk.core().restore(state).ok());
    desk.start();
    desk.publication = desk.round = 2;
    desk.generation = generation;
    Welcome welcome = desk.welcome(directive_of(2, CodecId::kQ8));
    welcome.last_settled = settled;
    welcome.verdict = verdict;
    welcome.held = held;
    welcome.next_sequence = 9;
    desk.reply(Lane::kExchange, welcome);
  }
  bool starts_from_zero() {
    return desk.core().restored() == Restored::kOutdated &&
           std::ranges::all_of(desk.core().residual(), [](float e) { return e == 0; });
  }
  bool kept(const std::vector<float>& residual) {
    return desk.core().restored() == Restored::kKept &&
           std::ranges::equal(desk.core().residual(), residual);
  }
};

}  // namespace

TEST_SUITE("worker/state") {
  TEST_CASE("what is saved is restored whole: a second save gives the same bytes") {
    const Stopped life;
    for (const Bytes& state : {life.idle, life.busy}) {
      const WorkerState decoded = decode_state(state).value();
      CHECK(encode_state(decoded) == state);
      WorkerDesk next({.momentum = 0.9});
      REQUIRE(next.core().restore(state).ok());
      CHECK(next.core().restored() == Restored::kWaiting);
      CHECK(next.core().save() == state);  // before anything is known
    }
    const WorkerState busy = decode_state(life.busy).value();
    CHECK(busy.name == "desk");
    CHECK(busy.last_settled == 1);
    REQUIRE(busy.pending.has_value());
    CHECK(busy.pending->sequence == 2);
    CHECK(std::ranges::any_of(busy.optimizer.momentum, [](float m) { return m != 0; }));
    WorkerDesk blank({});
    CHECK(blank.core().save().empty());
  }

  TEST_CASE("a state of version 1, without squares, is still read") {
    const Stopped life;
    Bytes old = life.idle;
    // Before the last byte, which says that nothing is pending: steps and that there are none.
    old.erase(old.end() - 6, old.end() - 1);
    old[4] = std::byte{1};
    const WorkerState state = decode_state(old).value();
    CHECK(encode_state(state) == life.idle);
    old[4] = std::byte{3};
    CHECK_FALSE(decode_state(old).has_value());
  }

  TEST_CASE("no truncation, tail or changed byte is read past its end or taken for more") {
    const Stopped life;
    Random random(test::seed(), 1);
    for (size_t length = 0; length < life.busy.size();
         length += 1 + static_cast<size_t>(random.below(7)))
      CHECK_FALSE(decode_state(ByteSpan(life.busy).first(length)).has_value());
    Bytes longer = life.busy;
    longer.push_back(std::byte{0});
    CHECK_FALSE(decode_state(longer).has_value());
    // The file's checksum finds every change; without it, what is taken still has legal lengths.
    for (int i = 0; i < 2000; ++i) {
      Bytes changed = life.busy;
      changed[static_cast<size_t>(random.below(changed.size()))] ^=
          static_cast<std::byte>(1u << random.below(8));
      const Result<WorkerState> state = decode_state(changed);
      if (!state) continue;
      CHECK(state->residual.size() == state->optimizer.momentum.size());
      WorkerDesk next({});
      if (!next.core().restore(changed).ok()) continue;
      next.start();
      Welcome welcome = next.welcome(directive_of(2));
      welcome.last_settled = 2;
      welcome.next_sequence = 3;
      next.reply(Lane::kExchange, welcome);
      CHECK(next.core().failure().ok());
    }
  }

  TEST_CASE("nothing pending: the residual is kept if the server has settled no more, else zero") {
    const Stopped life;
    REQUIRE(std::ranges::any_of(life.residual, [](float e) { return e != 0; }));
    NextLife same(life.idle, 1);
    CHECK(same.kept(life.residual));
    REQUIRE(same.desk.asked<Fetch>() != nullptr);  // a model is not kept: a key frame
    CHECK(same.desk.asked<Fetch>()->from == 0);
    same.desk.serve_model();
    same.desk.work(2);
    CHECK(same.desk.take_update().sequence == 9);

    NextLife more(life.idle, 2);
    CHECK(more.starts_from_zero());
    CHECK(more.desk.core().stats().lost_count == 1);
    CHECK(more.desk.core().stats().lost_gradient_total > 0);
    CHECK(decode_state(more.desk.core().save())->last_settled == 2);
    // An update that the server holds was cut after the save, and has the residual in it.
    CHECK(NextLife(life.idle, 1, Verdict::kApplied, true).starts_from_zero());
    CHECK(NextLife(life.idle, 0).starts_from_zero());  // another server's run of the same text
    // But a leaver's last update may be granted and held.
    CHECK(NextLife(life.idle, 0, Verdict::kNone, true).kept(life.residual));
  }

  TEST_CASE("pending and unknown to the server: the same bytes go again, under the same sequence") {
    const Stopped life;
    NextLife next(life.busy, 1);
    CHECK(next.kept(life.left));
    CHECK(next.desk.asked<Push>() != nullptr);
    const Exchange again = next.desk.take_update();
    CHECK(again.sequence == life.exchange.sequence);
    CHECK(again.update_checksum == life.exchange.update_checksum);
    CHECK(again.base_publication == life.exchange.base_publication);
    CHECK(again.base_checksum == life.exchange.base_checksum);
    CHECK(again.steps == life.exchange.steps);
    CHECK(next.desk.decoded() == life.sent);
  }

  TEST_CASE("pending and held by the server: it is committed again, nothing is pushed") {
    const Stopped life;
    NextLife next(life.busy, 1, Verdict::kApplied, true);
    CHECK(next.kept(life.left));
    REQUIRE(next.desk.asked<Exchange>() != nullptr);
    CHECK(next.desk.asked<Exchange>()->sequence == 2);
  }

  TEST_CASE("pending and settled: the recorded verdict is carried out") {
    const Stopped life;
    NextLife applied(life.busy, 2);
    CHECK(applied.kept(life.left));
    CHECK(applied.desk.asked<Fetch>() != nullptr);
    // Applied, and a later one is held: that one has the residual in it.
    CHECK(NextLife(life.busy, 2, Verdict::kApplied, true).starts_from_zero());

    NextLife refused(life.busy, 2, Verdict::kRefused);
    REQUIRE(refused.desk.asked<Exchange>() != nullptr);
    refused.desk.reply(Lane::kExchange,
                       Refused{2, RefusalClass::kLate, "this update was refused before", "none"});
    for (size_t i = 0; i < life.left.size(); ++i)
      CHECK(static_cast<double>(refused.desk.core().residual()[i]) ==
            doctest::Approx(static_cast<double>(life.left[i] + life.sent[i])).epsilon(1e-5));
  }

  TEST_CASE("pending and overtaken: residual, momentum and update are gone, counted") {
    const Stopped life;
    NextLife next(life.busy, 3);
    CHECK(next.starts_from_zero());
    CHECK(next.desk.core().stats().lost_count == 1);
    next.desk.serve_model();
    next.desk.work(2);
    CHECK(next.desk.take_update().sequence == 9);
  }

  TEST_CASE("a server that went back: what it never heard of is kept, the pending update un-sent") {
    const Stopped life;
    for (const uint64_t settled : {uint64_t{0}, uint64_t{1}}) {
      NextLife idle(life.idle, settled, Verdict::kApplied, false, 2);
      CHECK(idle.kept(life.residual));
      CHECK(idle.desk.core().stats().rolled_back == 1);
      NextLife busy(life.busy, settled, Verdict::kApplied, false, 2);
      CHECK(busy.desk.core().restored() == Restored::kKept);
      for (size_t i = 0; i < life.left.size(); ++i)
        CHECK(static_cast<double>(busy.desk.core().residual()[i]) ==
              doctest::Approx(static_cast<double>(life.left[i] + life.sent[i])).epsilon(1e-5));
    }
    NextLife applied(life.busy, 2, Verdict::kApplied, false, 2);
    CHECK(applied.kept(life.left));
    CHECK(NextLife(life.idle, 2, Verdict::kApplied, false, 2).starts_from_zero());
  }

  TEST_CASE("another worker's state is refused; another run's is as if it were not there") {
    const Stopped life;
    WorkerState other = decode_state(life.idle).value();
    other.name = "shed";
    WorkerDesk desk({});
    const Status status = desk.core().restore(encode_state(other));
    CHECK(status.message() == "it is the state of worker 'shed'");
    CHECK(desk.core().restored() == Restored::kNothing);

    WorkerDesk larger({.inputs = 21});
    REQUIRE(larger.core().restore(life.busy).ok());
    larger.connect(directive_of(2));
    CHECK(larger.core().restored() == Restored::kOtherRun);
    larger.work(2);
    CHECK(larger.take_update().chunk_count == 1);
  }
}
