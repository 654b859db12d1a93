// The model's way in: a start that is worked out, deltas, and key frames where those don't fit.
#include <doctest/doctest.h>

#include "tests/runtime/worker/worker_desk.h"

using namespace paceline;
using test::directive_of;
using test::WorkerDesk;

TEST_SUITE("worker/fetch") {
  TEST_CASE("a server that knows less than the worker holds: its model is taken as a key frame") {
    WorkerDesk desk({});
    desk.publication = 9;
    desk.connect(directive_of(2));
    desk.work(2);
    desk.take_update();
    desk.reply(Lane::kExchange, Refused{0, RefusalClass::kStaleSession, "by hand", "none"});
    desk.publication = 4;
    desk.reply(Lane::kExchange, desk.welcome(directive_of(2)));
    desk.take_update();
    desk.reply(Lane::kExchange, desk.granted(directive_of(2)));
    REQUIRE(desk.asked<Fetch>() != nullptr);
    CHECK(desk.asked<Fetch>()->from == 0);
    desk.serve_model();
    CHECK(desk.core().publication() == 4);
    CHECK(desk.core().activity() == Activity::kTrain);
  }

  TEST_CASE("a run that starts as its file says is begun without a key frame, any other with one") {
    for (const uint32_t difference : {0u, 1u}) {
      WorkerDesk desk({});
      desk.start();
      Welcome welcome = desk.welcome(directive_of(2));
      welcome.start_checksum = model_checksum(desk.model) ^ difference;
      desk.reply(Lane::kExchange, welcome);
      CHECK((desk.asked<Fetch>() == nullptr) == (difference == 0));
      desk.serve_model();
      CHECK(desk.key_frames_served == static_cast<int>(difference));
      CHECK(desk.core().publication() == 1);
      CHECK(desk.core().published_checksum() == model_checksum(desk.model));
      CHECK(desk.core().activity() == Activity::kTrain);
    }
  }

  TEST_CASE("who comes a little later works out the start and fetches what changed since") {
    WorkerDesk desk({});
    desk.publication = 3;
    desk.start();
    Welcome welcome = desk.welcome(directive_of(2));
    welcome.start_checksum = model_checksum(desk.model);
    desk.reply(Lane::kExchange, welcome);
    REQUIRE(desk.asked<Fetch>() != nullptr);
    CHECK(desk.asked<Fetch>()->from == 1);
    CHECK(desk.asked<Fetch>()->to == 3);
  }

  TEST_CASE("a model with another checksum than the server's is asked for again, exactly") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    desk.work(2);
    desk.take_update();
    ++desk.publication;
    ++desk.round;
    desk.reply(Lane::kExchange, desk.granted(directive_of(2)));
    REQUIRE(desk.asked<Fetch>() != nullptr);
    CHECK(desk.asked<Fetch>()->from == 1);
    // A delta that says another checksum than what it leads to.
    std::vector<float> published = desk.model, moved = desk.model;
    for (float& value : moved) value *= 1.5f;
    EncodedUpdate delta;
    REQUIRE(
        encode_delta(desk.layout(), CodecId::kQ8, {downlink_seed(3), 2}, moved, published, &delta)
            .ok());
    Fetched fetched;
    fetched.generation = 1;
    fetched.from = 1;
    fetched.publication = 2;
    fetched.chunk_count = 1;
    fetched.checksum = model_checksum(published) ^ 1;
    fetched.payload = delta.chunks[0];
    desk.reply(Lane::kExchange, fetched);
    CHECK(desk.core().stats().checksum_faults == 1);
    CHECK(desk.asked<Fetch>() == nullptr);  // not in a tight loop
    desk.pass_timer();
    REQUIRE(desk.asked<Fetch>() != nullptr);
    CHECK(desk.asked<Fetch>()->exact);
    CHECK(desk.asked<Fetch>()->from == 0);
    desk.serve_model();
    CHECK(desk.core().activity() == Activity::kTrain);
    CHECK(desk.core().published_checksum() == model_checksum(desk.model));
  }

  TEST_CASE("a held model that is not the server's of that number is fetched exactly") {
    WorkerDesk desk({});
    desk.connect(directive_of(2));
    CHECK(desk.key_frames_served == 1);
    desk.work(2);
    const Exchange exchange = desk.take_update();
    desk.model[0] += 1.0f;  // the server's publication 1 is another one
    desk.reply(Lane::kExchange, Refused{exchange.sequence, RefusalClass::kLate, "by hand", "none"});
    desk.reply(Lane::kExchange, desk.welcome(directive_of(2)));
    REQUIRE(desk.asked<Fetch>() != nullptr);
    CHECK(desk.asked<Fetch>()->exact);
    CHECK(desk.core().stats().checksum_faults == 1);
    desk.serve_model();
    CHECK(desk.core().published_checksum() == model_checksum(desk.model));
    desk.work(2);
    CHECK(desk.take_update().base_checksum == model_checksum(desk.model));
  }
}
