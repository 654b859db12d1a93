// The model goes out: deltas one by one, or an exact copy.
#include <doctest/doctest.h>

#include <cstring>

#include "runtime/base/checksum.h"
#include "tests/server/server_desk.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::refusal_of;
using test::ServerDesk;

namespace {

// All chunks of one answer to `fetch`, added to `model`; the publication that it then is.
uint64_t take(ServerDesk& desk, uint64_t session, Fetch fetch, std::vector<float>* model) {
  uint64_t publication = 0;
  uint32_t checksum = 0;
  for (fetch.chunk = 0; fetch.chunk < desk.layout().chunk_count(); ++fetch.chunk) {
    const std::optional<Message> answer = desk.ask(session, fetch);
    const auto* fetched = as<Fetched>(answer);
    REQUIRE(fetched != nullptr);
    if (fetch.chunk == 0) publication = fetched->publication;
    CHECK(fetched->publication == publication);
    if (fetched->key_frame) fetch.to = publication;
    const PayloadView view = verify_payload(desk.layout(), fetch.chunk, fetched->payload).value();
    apply_delta(desk.layout(), view, downlink_seed(3), *model);
    checksum = fetched->checksum;
  }
  CHECK(model_checksum(*model) == checksum);
  return publication;
}

Fetch fetch_from(ServerDesk& desk, uint64_t from) {
  Fetch fetch;
  fetch.generation = desk.core().generation();
  fetch.from = from;
  fetch.to = desk.core().publication();
  return fetch;
}

}  // namespace

TEST_SUITE("server/fetch") {
  TEST_CASE("a key frame and every delta after it give the published bits, with every codec") {
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kQ8, CodecId::kS1r}) {
      ServerOptions options = desk_options("bsp", 600, 300);
      options.codec_down = codec;
      ServerDesk desk(std::move(options));
      HandWorker worker{&desk, "a"};
      worker.say_hello();
      std::vector<float> model(desk.layout().element_count());
      uint64_t held = take(desk, worker.session, fetch_from(desk, 0), &model);
      CHECK(held == 1);
      for (int round = 0; round < 3; ++round) worker.exchange(0.01f);
      while (held < desk.core().publication()) {
        const uint64_t next = take(desk, worker.session, fetch_from(desk, held), &model);
        REQUIRE(next == held + 1);
        held = next;
      }
      CHECK(std::memcmp(model.data(), desk.core().published().data(),
                        model.size() * sizeof(float)) == 0);
    }
  }

  TEST_CASE("who holds what is not kept here, or asks for it, gets an exact copy") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    for (int round = 0; round < 3; ++round) worker.exchange(0.01f);
    for (const uint64_t from : {uint64_t{0}, desk.core().publication(), uint64_t{999}}) {
      const std::optional<Message> answer = desk.ask(worker.session, fetch_from(desk, from));
      REQUIRE(as<Fetched>(answer) != nullptr);
      CHECK(as<Fetched>(answer)->key_frame);
    }
    Fetch exact = fetch_from(desk, 2);
    CHECK_FALSE(as<Fetched>(desk.ask(worker.session, exact))->key_frame);
    exact.exact = true;
    CHECK(as<Fetched>(desk.ask(worker.session, exact))->key_frame);
  }

  TEST_CASE("deltas longer together than four copies are not kept, and the copy is what one gets") {
    ServerDesk desk(desk_options("bsp", 600, 300));  // raw32: a delta is as long as a copy
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    for (int round = 0; round < 12; ++round) worker.exchange(0.01f);
    const uint64_t newest = desk.core().publication();
    for (uint64_t from = 1; from < newest; ++from) {
      CAPTURE(from);
      const std::optional<Message> answer = desk.ask(worker.session, fetch_from(desk, from));
      CHECK(as<Fetched>(answer)->key_frame == (newest - from > 3));
    }
    // Of small ones some hundreds are kept all the same.
    ServerDesk small(desk_options("bsp"));
    HandWorker other{&small, "a"};
    other.say_hello();
    for (int round = 0; round < 300; ++round) other.exchange(0.01f);
    CHECK_FALSE(as<Fetched>(small.ask(other.session, fetch_from(small, 1)))->key_frame);
  }

  TEST_CASE("a copy in transfer stays the same while the model goes on") {
    ServerDesk desk(desk_options("bsp", 600, 300));
    HandWorker reader{&desk, "b"}, worker{&desk, "a"};
    reader.say_hello();
    worker.say_hello();
    std::vector<float> model(desk.layout().element_count());
    Fetch fetch = fetch_from(desk, 0);
    const std::optional<Message> first = desk.ask(reader.session, fetch);
    const uint32_t checksum = as<Fetched>(first)->checksum;
    worker.exchange(0.5f);
    desk.now += 70'000'000;  // the next one who asks gets a newer copy
    CHECK(as<Fetched>(desk.ask(worker.session, fetch_from(desk, 0)))->publication == 2);
    fetch.to = as<Fetched>(first)->publication;
    fetch.chunk = 1;
    const std::optional<Message> second = desk.ask(reader.session, fetch);
    REQUIRE(as<Fetched>(second) != nullptr);
    CHECK(as<Fetched>(second)->publication == 1);
    CHECK(as<Fetched>(second)->checksum == checksum);
  }

  TEST_CASE("a chunk, a generation or a copy that is not there is refused") {
    ServerDesk desk(desk_options("bsp"));
    HandWorker worker{&desk, "a"};
    worker.say_hello();
    Fetch fetch = fetch_from(desk, 0);
    fetch.chunk = 1;
    CHECK(refusal_of(desk.ask(worker.session, fetch)) == RefusalClass::kLate);
    fetch.chunk = UINT32_MAX;
    CHECK(refusal_of(desk.ask(worker.session, fetch)) == RefusalClass::kLate);
    fetch = fetch_from(desk, 0);
    fetch.generation = 7;
    CHECK(refusal_of(desk.ask(worker.session, fetch)) == RefusalClass::kStaleSession);
  }
}
