// What an exchange tells the server of the link and of the codec.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/runtime/worker/worker_desk.h"

using namespace paceline;
using test::directive_of;
using test::WorkerDesk;

namespace {

double norm(std::span<const float> values) {
  double squares = 0;
  for (const float value : values)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

// Answers every push after `us`; the commit.
Exchange take_update_slowly(WorkerDesk& desk, TimeUs us) {
  while (const Push* push = desk.asked<Push>()) {
    desk.now += us;
    desk.reply(Lane::kExchange, Got{push->sequence, push->chunk});
  }
  return *desk.asked<Exchange>();
}

}  // namespace

TEST_SUITE("worker/measures") {
  TEST_CASE("push_us is from the cut to the last Got, fetch_us from asking to having the model") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    desk.work(2);
    Exchange exchange = take_update_slowly(desk, 7000);
    CHECK(exchange.push_us == 7000);
    CHECK(exchange.fetch_us == 1);  // the first model came at once
    ++desk.publication;
    ++desk.round;
    desk.reply(Lane::kExchange, desk.granted(directive_of(2)));
    desk.now += 12'000;
    desk.serve_model();
    desk.work(2);
    exchange = take_update_slowly(desk, 3000);
    CHECK(exchange.push_us == 3000);
    CHECK(exchange.fetch_us == 12'000);
  }

  TEST_CASE("a transfer that was interrupted is not measured") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    desk.work(2);
    REQUIRE(desk.asked<Push>() != nullptr);
    desk.fail(Lane::kExchange);
    desk.pass_timer();
    CHECK(take_update_slowly(desk, 5000).push_us == 0);

    ++desk.publication;
    ++desk.round;
    desk.reply(Lane::kExchange, desk.granted(directive_of(2)));
    desk.fail(Lane::kExchange);
    desk.pass_timer();
    desk.serve_model();
    desk.work(2);
    const Exchange exchange = take_update_slowly(desk, 5000);
    CHECK(exchange.fetch_us == 0);
    CHECK(exchange.push_us == 5000);
  }

  TEST_CASE("norms are of the update, of what was encoded, and of what is kept back") {
    WorkerDesk desk({.inputs = 100, .units = 50});
    desk.connect(directive_of(2, CodecId::kS1r));
    std::vector<float> before(desk.core().residual().begin(), desk.core().residual().end());
    for (int round = 0; round < 4; ++round) {
      desk.work(2);
      const Exchange exchange = desk.take_update();
      const std::vector<float> sent = desk.decoded();
      std::vector<float> coded(sent), update(sent);
      for (size_t i = 0; i < sent.size(); ++i) {
        coded[i] += desk.core().residual()[i];
        update[i] = coded[i] - before[i];
      }
      CHECK(static_cast<double>(exchange.coded_norm) == doctest::Approx(norm(coded)).epsilon(1e-5));
      CHECK(static_cast<double>(exchange.update_norm) ==
            doctest::Approx(norm(update)).epsilon(1e-4));
      CHECK(static_cast<double>(exchange.residual_norm) ==
            doctest::Approx(norm(desk.core().residual())).epsilon(1e-6));
      before.assign(desk.core().residual().begin(), desk.core().residual().end());
      desk.grant(directive_of(2, CodecId::kS1r));
    }
  }

  TEST_CASE("where nothing could be encoded nothing is measured") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    desk.trainer().poisoned = true;
    desk.work(1);
    const Exchange exchange = desk.take_update();
    CHECK(exchange.chunk_count == 0);
    CHECK(exchange.push_us == 0);
    CHECK(exchange.update_norm == 0);
    CHECK(exchange.coded_norm == 0);
    CHECK(exchange.residual_norm == 0);
  }
}
