// Training between two cuts, by known gradients.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/runtime/worker/worker_desk.h"

using namespace paceline;
using test::directive_of;
using test::PullTrainer;
using test::WorkerDesk;

namespace {

// The largest difference of `update` from -rate x `momentum`(element), over the parameters.
template <class Momentum>
double worst(const WorkerDesk& desk, std::span<const float> update, Momentum momentum) {
  double most = 0;
  for (const TensorSpec& tensor : desk.layout().tensors())
    for (uint64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i)
      most = std::max(
          most, std::fabs(static_cast<double>(update[static_cast<size_t>(i)]) + 0.1 * momentum(i)));
  return most;
}

}  // namespace

TEST_SUITE("worker/round") {
  TEST_CASE("tau 1 in micro-batches is one step on the whole mini-batch, momentum included") {
    for (const uint32_t batch : {8u, 32u, 128u, 1000u}) {
      WorkerDesk desk({.batch = batch, .momentum = 0.9});
      desk.connect(directive_of(1));
      const uint64_t parts = std::clamp(batch / 16, 1u, 8u);
      std::vector<double> gradient(desk.layout().element_count());
      for (uint64_t round = 0; round < 3; ++round) {
        uint64_t rows = 0;
        for (uint64_t part = 0; part < parts; ++part) {
          rows += desk.core().next_rows();
          desk.work();
        }
        CHECK(rows == batch);
        const Exchange exchange = desk.take_update();
        CHECK(exchange.steps == 1);
        const double off = worst(desk, desk.decoded(), [&](uint64_t i) {
          const auto at = static_cast<size_t>(i);
          gradient[at] = 0.9 * gradient[at] + static_cast<double>(desk.model[at]) -
                         PullTrainer::mean_target(round * batch, batch, i);
          return gradient[at];
        });
        CHECK(off < 1e-6);
        desk.grant(directive_of(1));
      }
    }
  }

  TEST_CASE("with batch_norm a mini-batch stays whole, and what it saw goes with the update") {
    WorkerDesk desk({.batch = 128, .layers = "[[layer]]\ntype = 'batch_norm'\n"});
    const TensorSpec& place = desk.layout().tensors()[2];
    REQUIRE(place.tensor_class == TensorClass::kStatistic);
    desk.connect(directive_of(1, CodecId::kS1r, true));
    CHECK(desk.core().next_rows() == 128);
    desk.work();
    REQUIRE(desk.asked<Ready>(Lane::kReady) != nullptr);
    desk.work();  // it goes on until the others are there
    desk.reply(Lane::kReady, Close{desk.round});
    const Exchange exchange = desk.take_update();
    CHECK(exchange.steps == 2);
    CHECK(exchange.statistic_rows == 256);
    REQUIRE(exchange.statistics.size() == 40);
    // The desk's trainer pulls statistics, too: what it leaves in their place is taken as a mean.
    for (uint64_t i = 0; i < 20; ++i)
      CHECK(std::fabs(static_cast<double>(exchange.statistics[static_cast<size_t>(i)]) +
                      PullTrainer::mean_target(0, 256, place.offset + i)) < 1e-6);
    const std::vector<float> update = desk.decoded();
    for (uint64_t i = place.offset; i < place.offset + place.count; ++i)
      CHECK(update[static_cast<size_t>(i)] == 0.0f);
    const Bytes state = desk.core().save();
    CHECK(encode_state(decode_state(state).value()) == state);
    CHECK(decode_state(state)->pending->statistics.values == exchange.statistics);
    desk.grant(directive_of(1, CodecId::kS1r, true));
    desk.work();
    desk.reply(Lane::kReady, Close{desk.round});
    CHECK(desk.take_update().statistic_rows == 128);
  }

  TEST_CASE("whoever leaves while it fetches sends no statistics twice") {
    for (const char* layers : {"", "[[layer]]\ntype = 'batch_norm'\n"}) {
      WorkerDesk desk({.batch = 128, .layers = layers});
      desk.connect(directive_of(1));
      desk.work(*layers == 0 ? 8 : 1);
      const bool has_statistics = desk.take_update().statistic_rows == 128;
      CHECK(has_statistics == (*layers != 0));
      ++desk.publication;
      ++desk.round;
      desk.reply(Lane::kExchange, desk.granted(directive_of(1)));
      REQUIRE(desk.asked<Fetch>() != nullptr);
      desk.leave();
      const Exchange exchange = desk.take_update();
      CHECK(exchange.leaving);
      CHECK(exchange.statistic_rows == 0);
      CHECK(exchange.statistics.empty());
    }
  }

  TEST_CASE("tau 3 is three steps, each from where the last one ended") {
    WorkerDesk desk({.batch = 32});
    desk.connect(directive_of(3));
    desk.work(3);
    CHECK(desk.take_update().steps == 3);
    const double off = worst(desk, desk.decoded(), [&](uint64_t i) {
      const auto start = static_cast<double>(desk.model[static_cast<size_t>(i)]);
      double w = start;
      for (uint64_t step = 0; step < 3; ++step)
        w -= 0.1 * (w - PullTrainer::mean_target(32 * step, 32, i));
      return (start - w) / 0.1;
    });
    CHECK(off < 1e-6);
  }

  TEST_CASE(
      "proximal pulls local steps back to the round's model, and the next round's to its own") {
    WorkerDesk desk({.batch = 32, .proximal = 2});
    desk.connect(directive_of(3));
    for (uint64_t round = 0; round < 2; ++round) {
      desk.work(3);
      CHECK(desk.take_update().steps == 3);
      const double off = worst(desk, desk.decoded(), [&](uint64_t i) {
        const auto start = static_cast<double>(desk.model[static_cast<size_t>(i)]);
        double w = start;
        for (uint64_t step = 3 * round; step < 3 * round + 3; ++step)
          w -= 0.1 * (w - PullTrainer::mean_target(32 * step, 32, i) + 2 * (w - start));
        return (start - w) / 0.1;
      });
      CHECK(off < 1e-6);
      desk.grant(directive_of(3));
    }
  }

  TEST_CASE("without rows yet: neither steps nor evaluations, and both once there are some") {
    WorkerDesk desk({.held_out_rows = 10});
    Directive directive = directive_of(2);
    directive.evaluate = true;
    desk.connect(directive);
    desk.trainer().waiting = true;
    CHECK(desk.core().activity() == Activity::kIdle);
    CHECK(std::get<Heartbeat>(desk.core().heartbeat()->message).clock == 0);
    desk.trainer().waiting = false;
    CHECK(desk.core().activity() == Activity::kEvaluate);
    desk.trainer().evaluated = {};  // nothing is held out yet
    desk.work(3);
    CHECK(desk.take_update().evaluations.empty());
    desk.grant(directive);
    desk.trainer().evaluated = {4, 3, 4 << 16};
    desk.work(3);
    const Exchange exchange = desk.take_update();
    REQUIRE(exchange.evaluations.size() == 1);
    CHECK(exchange.evaluations[0].rows == 4);
  }

  TEST_CASE("elastic: Ready at tau, work up to four times tau, then rest until Close") {
    WorkerDesk desk({});
    desk.connect(directive_of(4, CodecId::kRaw32, true));
    desk.work(3);
    CHECK(desk.asked<Ready>(Lane::kReady) == nullptr);
    desk.work(1);
    REQUIRE(desk.asked<Ready>(Lane::kReady) != nullptr);
    CHECK(desk.asked<Ready>(Lane::kReady)->steps == 4);
    CHECK(desk.asked<Ready>(Lane::kReady)->round == 1);
    desk.work(12);
    CHECK(desk.core().activity() == Activity::kIdle);
    CHECK(desk.asked<Exchange>() == nullptr);
    CHECK(std::get<Heartbeat>(desk.core().heartbeat()->message).resting);
    desk.now += 5'000'000;
    desk.reply(Lane::kReady, Close{1});
    const Exchange exchange = desk.take_update();
    CHECK(exchange.steps == 16);
    CHECK(exchange.clock == 16);
    desk.grant(directive_of(4, CodecId::kRaw32, true));
    CHECK(desk.core().stats().waited_us == 5'000'000);
  }

  TEST_CASE("elastic: the rest comes earlier where four times tau is more than an epoch") {
    WorkerDesk desk({.batch = 32, .training_rows = 150});
    desk.connect(directive_of(4, CodecId::kRaw32, true));
    desk.work(5);
    CHECK(desk.core().activity() == Activity::kIdle);
    WorkerDesk small({.batch = 32, .training_rows = 40});  // its minimum is an epoch, too
    small.connect(directive_of(4, CodecId::kRaw32, true));
    small.work(2);
    CHECK(small.core().activity() == Activity::kIdle);
    CHECK(small.asked<Ready>(Lane::kReady) != nullptr);
  }

  TEST_CASE("Close cuts at once and makes the step in progress pointless; of another round not") {
    WorkerDesk desk({});
    desk.connect(directive_of(2, CodecId::kRaw32, true));
    desk.work(5);
    const uint64_t ticket = desk.core().work_ticket();
    desk.reply(Lane::kReady, Close{7});
    CHECK(desk.core().work_ticket() == ticket);
    CHECK(desk.core().activity() == Activity::kTrain);
    WorkerDesk other({});
    other.connect(directive_of(2, CodecId::kRaw32, true));
    other.work(5);
    const uint64_t before = other.core().work_ticket();
    other.reply(Lane::kReady, Close{1});
    CHECK(other.core().work_ticket() != before);
    CHECK(other.take_update().steps == 5);
  }

  TEST_CASE("a loss that is no number: an empty exchange, counted; model and residual as before") {
    for (const uint32_t tau : {1u, 4u}) {
      WorkerDesk desk({.momentum = 0.9});
      desk.connect(directive_of(tau, CodecId::kQ8));
      desk.work(tau == 1 ? 2 : 4);
      desk.take_update();
      desk.grant(directive_of(tau, CodecId::kQ8));
      const std::vector<float> residual(desk.core().residual().begin(),
                                        desk.core().residual().end());
      REQUIRE(std::ranges::any_of(residual, [](float e) { return e != 0; }));
      desk.trainer().poisoned = true;
      desk.work();  // cuts at once: more steps would only build on it
      const Exchange exchange = desk.take_update();
      CHECK(exchange.chunk_count == 0);
      CHECK(exchange.steps >= 1);
      CHECK(desk.core().stats().not_finite == 1);
      CHECK(std::ranges::equal(desk.core().residual(), residual));

      // The next round is sound, with momentum from nothing.
      desk.trainer().poisoned = false;
      desk.grant(directive_of(tau));
      desk.work(tau == 1 ? 2 : 4);
      CHECK(desk.take_update().chunk_count == 1);
      CHECK(std::ranges::all_of(desk.decoded(), [](float u) { return std::isfinite(u); }));
    }
  }

  TEST_CASE(
      "the model is evaluated before its first step, once, and the counts go with the update") {
    WorkerDesk desk({.held_out_rows = 10});
    Directive directive = directive_of(2);
    directive.evaluate = true;
    desk.connect(directive);
    CHECK(desk.core().activity() == Activity::kEvaluate);
    desk.work();
    CHECK(desk.core().activity() == Activity::kTrain);
    desk.work(2);
    const Exchange exchange = desk.take_update();
    REQUIRE(exchange.evaluations.size() == 1);
    CHECK(exchange.evaluations[0] == Evaluation{1, 10, 7, 10 << 16});
    desk.grant(directive_of(2));
    CHECK(desk.core().activity() == Activity::kTrain);  // not asked for this time
  }

  TEST_CASE("a round that closed without it is kept in the residual, and mass is conserved") {
    WorkerDesk desk({});
    desk.connect(directive_of(4, CodecId::kQ8));
    test::MassBooks books(desk.model.size());
    desk.core().set_observer(&books);
    desk.work(3);
    CHECK(std::ranges::all_of(desk.core().residual(), [](float e) { return e == 0; }));
    desk.round = 3;
    desk.publication = 3;
    // The heartbeat's answer tells of it.
    desk.core().on_reply(Lane::kHeartbeat, {77, HeartbeatReply{1, 3, 3, false}}, desk.now);
    CHECK(desk.core().stats().rounds_missed == 1);
    for (size_t i = 0; i < books.produced_sum.size(); ++i)
      CHECK(static_cast<double>(desk.core().residual()[i]) == books.produced_sum[i]);
    CHECK(std::ranges::any_of(books.produced_sum, [](double u) { return u != 0; }));
  }
}
