// What of a private run's board leaves it, and when it stops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/privacy/mechanism.h"
#include "tests/runtime/privacy/seeded_bytes.h"
#include "tests/runtime/worker/worker_desk.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::directive_of;
using test::MassBooks;
using test::WorkerDesk;

namespace {

constexpr const char* kPrivacy = "clip = 0.05\nnoise = 0.8\n";

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0; });
}

}  // namespace

TEST_SUITE("worker/privacy") {
  TEST_CASE("an update is clipped and gets noise, and then only its residual and its coding") {
    WorkerDesk open({}), closed({.privacy = kPrivacy});
    for (WorkerDesk* desk : {&open, &closed}) {
      desk->connect(directive_of(3));
      desk->work(3);
      desk->take_update();
    }
    std::vector<float> expected = open.decoded();
    const RunSpec& run = closed.core().run();
    REQUIRE(paceline::make_private(*run.privacy, trained_elements(run.model), test::seeded_bytes(1),
                                   expected)
                .ok());
    CHECK(closed.decoded() == expected);
    CHECK(open.decoded() != expected);
  }

  TEST_CASE("no loss and no evaluation leaves") {
    WorkerDesk desk({.held_out_rows = 100, .privacy = kPrivacy});
    Directive directive = directive_of(2);
    directive.evaluate = true;
    desk.connect(directive);
    CHECK(desk.core().activity() == Activity::kTrain);
    desk.work(2);
    const Exchange exchange = desk.take_update();
    CHECK(exchange.training_loss == 0);
    CHECK(exchange.evaluations.empty());
  }

  TEST_CASE("what is frozen gets no noise") {
    WorkerDesk desk(
        {.layers = "[[layer]]\ntype = 'dense'\nunits = 20\nfrozen = true\n", .privacy = kPrivacy});
    desk.connect(directive_of(1));
    desk.work(2);
    desk.take_update();
    const std::vector<float> sent = desk.decoded();
    const std::span<const TensorSpec> tensors = desk.layout().tensors();
    REQUIRE(tensors.size() == 4);
    const auto trained = static_cast<size_t>(tensors[2].offset);
    CHECK(all_zero(std::span(sent).first(trained)));
    CHECK_FALSE(all_zero(std::span(sent).subspan(trained)));
  }

  // With fifty clips of noise the clipped updates are lost in it. The sum of n squared Gaussians
  // has mean n and sd sqrt(2 n).
  TEST_CASE("what was sent and the residual add up to the noise of all updates, by any codec") {
    for (const CodecId codec : {CodecId::kQ8, CodecId::kS1r, CodecId::kTk5}) {
      WorkerDesk desk(
          {.inputs = 1500, .privacy = "clip = 0.001\nnoise = 50\n", .noise_seed = test::seed()});
      MassBooks books(desk.layout().element_count());
      desk.core().set_observer(&books);
      std::vector<double> sum(desk.layout().element_count());
      desk.connect(directive_of(1, codec));
      constexpr int kUpdates = 6;
      for (int i = 0; i < kUpdates; ++i) {
        desk.work(2);
        desk.take_update();
        MassBooks::add(desk.decoded(), &sum);
        desk.grant(directive_of(1, codec));
      }
      MassBooks::add(desk.core().residual(), &sum);
      double squares = 0, count = 0, worst = 0;
      for (const ElementRange& range : trained_elements(desk.core().run().model))
        for (size_t i = range.begin; i < range.end; ++i, ++count) {
          squares += sum[i] * sum[i] / (kUpdates * 0.05 * 0.05);
          worst = std::max(worst, std::fabs(sum[i] - books.produced_sum[i]));
        }
      CAPTURE(codec_info(codec).name);
      CHECK(worst < 1e-5);
      CHECK(std::fabs(squares - count) < 5 * std::sqrt(2 * count));
    }
  }

  TEST_CASE("an update that had no answer is sent again as the same bytes, in another life, too") {
    WorkerDesk desk({.privacy = kPrivacy});
    desk.connect(directive_of(2));
    desk.work(2);
    const Bytes sent = desk.asked<Push>()->payload;
    desk.fail(Lane::kExchange);
    desk.pass_timer();
    REQUIRE(desk.asked<Push>() != nullptr);
    CHECK(desk.asked<Push>()->payload == sent);

    WorkerDesk next({.privacy = kPrivacy, .noise_seed = 2});
    REQUIRE(next.core().restore(desk.core().save()).ok());
    next.start();
    next.reply(Lane::kExchange, next.welcome(directive_of(2)));
    REQUIRE(next.asked<Push>() != nullptr);
    CHECK(next.asked<Push>()->payload == sent);
  }

  TEST_CASE("steps of a round that closed without it are lost, not sent without noise") {
    WorkerDesk desk({.privacy = kPrivacy});
    desk.connect(directive_of(8));
    desk.work(3);
    HeartbeatReply beat;
    beat.generation = desk.generation;
    beat.round = ++desk.round;
    desk.core().on_reply(Lane::kHeartbeat, {77, beat}, desk.now);
    CHECK(desk.core().stats().rounds_missed == 1);
    CHECK(desk.core().stats().lost_count == 1);
    CHECK(all_zero(desk.core().residual()));
  }

  TEST_CASE("an update that is not finite is not sent") {
    WorkerDesk desk({.privacy = kPrivacy});
    desk.connect(directive_of(1));
    desk.trainer().poisoned = true;
    desk.work();
    CHECK(desk.take_update().chunk_count == 0);
    CHECK(desk.core().stats().not_finite == 1);
    CHECK(all_zero(desk.core().residual()));
  }

  TEST_CASE("a leaver that has not stepped since its cut sends what is left, and no noise") {
    WorkerDesk desk({.privacy = kPrivacy});
    desk.connect(directive_of(1));
    desk.work(2);
    desk.take_update();
    desk.grant(directive_of(1));
    desk.leave();
    CHECK(desk.take_update().leaving);
    CHECK(all_zero(desk.decoded()));
  }

  TEST_CASE("before epsilon_max is passed it leaves in order, and a new life remembers") {
    const PrivacySpec privacy{.clip = 0.05, .noise = 2};
    const double most = spent_epsilon(privacy, 6) + 1e-6;
    const std::string keys = format_text("clip = 0.05\nnoise = 2\nepsilon_max = %.17g\n", most);
    WorkerDesk desk({.privacy = keys});
    desk.connect(directive_of(1));
    int updates = 0;
    Exchange last;
    while (!last.leaving) {
      if (desk.core().activity() == Activity::kTrain) desk.work(2);
      last = desk.take_update();
      ++updates;
      if (last.leaving)
        desk.reply(Lane::kExchange, desk.granted(directive_of(1)));
      else
        desk.grant(directive_of(1));
    }
    CHECK(updates == 6);
    CHECK(desk.core().spent_epsilon() <= most);
    CHECK(desk.core().activity() == Activity::kStopped);
    CHECK(desk.core().failure().ok());

    // The server knows how many there were.
    WorkerDesk next({.privacy = keys});
    next.start();
    Welcome welcome = next.welcome(directive_of(1));
    welcome.next_sequence = 7;
    next.reply(Lane::kExchange, welcome);
    next.serve_model();
    CHECK(next.take_update().leaving);
    CHECK(all_zero(next.decoded()));
  }

  TEST_CASE("a board that insists keeps its numbers back, and takes part in private runs only") {
    WorkerDesk open({.held_out_rows = 100, .epsilon_max = 30});
    open.start();
    CHECK(open.asked<Hello>()->training_rows == 20);
    CHECK(open.asked<Hello>()->held_out_rows == 0);
    open.reply(Lane::kExchange, open.welcome(directive_of(1)));
    CHECK(open.core().activity() == Activity::kStopped);
    CHECK(open.core().failure().code() == Code::kRefused);
    CHECK(open.core().save().empty());

    const struct {
      const char* of_run;
      double most;
    } cases[] = {{"", 30}, {"epsilon_max = 10\n", 10}, {"epsilon_max = 100\n", 30}};
    for (const auto& one : cases) {
      WorkerDesk closed({.privacy = std::string(kPrivacy) + one.of_run, .epsilon_max = 30});
      closed.connect(directive_of(1));
      CHECK(closed.core().run().privacy->epsilon_max == one.most);
    }
  }
}
