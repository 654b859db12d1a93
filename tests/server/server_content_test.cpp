// What the server measures of codecs and links, and what it makes of it.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/checksum.h"
#include "tests/server/server_desk.h"

using namespace paceline;
using test::as;
using test::desk_options;
using test::HandWorker;
using test::ServerDesk;

namespace {

// A worker whose transfers take as long as its link needs, and which says so.
struct LinkedWorker {
  HandWorker hand;
  double us_per_byte = 0;
  TimeUs trip_us = 200;
  uint32_t fetch_us = 0;
  std::vector<float> model = {};  // as this worker holds it

  CodecPair round() {
    ServerDesk& desk = *hand.desk;
    if (model.empty()) model.assign(desk.core().published().begin(), desk.core().published().end());
    ++hand.sequence;
    EncodedUpdate update = hand.update(0.001f);
    for (uint32_t i = 0; i < update.chunks.size(); ++i)
      desk.ask(hand.session, hand.push_of(update, i));
    desk.now += trip_us;
    Exchange exchange = hand.exchange_of(update);
    exchange.step_us = 20'000;
    exchange.push_us = static_cast<uint32_t>(static_cast<double>(update.bytes()) * us_per_byte) +
                       static_cast<uint32_t>(trip_us);
    exchange.fetch_us = fetch_us;
    exchange.update_norm = exchange.coded_norm = 1;
    const std::optional<Message> answer = desk.ask(hand.session, exchange);
    const auto* granted = as<Granted>(answer);
    REQUIRE(granted != nullptr);
    fetch(granted->publication);
    return {static_cast<CodecId>(granted->directive.codec_up),
            static_cast<CodecId>(granted->directive.codec_down)};
  }

  void fetch(uint64_t publication) {
    ServerDesk& desk = *hand.desk;
    fetch_us = 0;
    Fetch fetch;
    fetch.generation = desk.core().generation();
    fetch.from = publication - 1;
    fetch.to = publication;
    double bytes = 0;
    uint32_t checksum = 0;
    for (fetch.chunk = 0; fetch.chunk < desk.layout().chunk_count(); ++fetch.chunk) {
      const std::optional<Message> answer = desk.ask(hand.session, fetch);
      REQUIRE(as<Fetched>(answer) != nullptr);
      const Fetched& fetched = *as<Fetched>(answer);
      bytes += static_cast<double>(fetched.payload.size());
      apply_delta(desk.layout(),
                  verify_payload(desk.layout(), fetch.chunk, fetched.payload).value(),
                  downlink_seed(3), model);
      checksum = fetched.checksum;
      fetch_us += static_cast<uint32_t>(trip_us);
    }
    fetch_us += static_cast<uint32_t>(bytes * us_per_byte);
    CHECK(model_checksum(model) == checksum);
    desk.now += 100'000;
  }
};

ServerOptions automatic_options() {
  ServerOptions options = desk_options("bsp", 784, 128);
  options.codec_up_auto = options.codec_down_auto = true;
  return options;
}

double bits(CodecId codec) { return codec_info(codec).bits_per_element; }

}  // namespace

TEST_SUITE("server/content") {
  TEST_CASE("auto: the worker's own times decide how many bits its link bears") {
    std::vector<double> chosen;
    for (const double mbit_per_s : {5000.0, 0.02}) {
      ServerDesk desk(automatic_options());
      LinkedWorker worker{.hand = {&desk, "a"}, .us_per_byte = 8 / mbit_per_s};
      worker.hand.say_hello();
      CodecPair codecs;
      for (int i = 0; i < 36; ++i) codecs = worker.round();
      chosen.push_back(bits(codecs.up));
    }
    CHECK(chosen[0] > chosen[1]);
  }

  TEST_CASE("a saved server goes on with the codecs that it had chosen") {
    ServerDesk before(automatic_options());
    LinkedWorker worker{.hand = {&before, "a"}, .us_per_byte = 8.0 / 5000};
    worker.hand.say_hello();
    CodecPair codecs;
    for (int i = 0; i < 40; ++i) codecs = worker.round();
    ServerDesk after(automatic_options());
    REQUIRE(after.core().restore(before.core().save(), true).ok());
    CHECK(after.core().directive().codec_up == static_cast<uint8_t>(codecs.up));
    CHECK(after.core().directive().codec_down == static_cast<uint8_t>(codecs.down));
  }

  TEST_CASE("numbers of a worker that can't be do not reach a choice") {
    ServerDesk desk(automatic_options());
    LinkedWorker worker{.hand = {&desk, "a"}};
    worker.hand.say_hello();
    for (int i = 0; i < 30; ++i) {
      ++worker.hand.sequence;
      const EncodedUpdate update = worker.hand.update(0.001f);
      worker.hand.push(update);
      Exchange exchange = worker.hand.exchange_of(update);
      exchange.push_us = exchange.fetch_us = i % 2 == 0 ? 0 : UINT32_MAX;
      exchange.update_norm = i % 3 == 0 ? std::nanf("") : -1.0f;
      exchange.coded_norm = INFINITY;
      exchange.residual_norm = -INFINITY;
      desk.now += 1000;
      const std::optional<Message> answer = desk.ask(worker.hand.session, exchange);
      REQUIRE(as<Granted>(answer) != nullptr);
      CHECK(codec_by_wire_id(as<Granted>(answer)->directive.codec_up).has_value());
    }
  }

  TEST_CASE("a codec down that does not keep up: the gap is closed in q8, then it goes on") {
    ServerOptions options = desk_options("bsp", 784, 128);
    options.codec_down = CodecId::kTk1;
    ServerDesk desk(std::move(options));
    LinkedWorker worker{.hand = {&desk, "a"}};
    worker.hand.say_hello();
    bool q8 = false, back = false;
    for (int i = 0; i < 60; ++i) {
      // For 20 rounds everything moves, as a sparse codec can't say; then nearly nothing.
      ++worker.hand.sequence;
      const EncodedUpdate update = worker.hand.update(i < 20 ? 0.01f : 1e-6f);
      worker.hand.push(update);
      const std::optional<Message> answer =
          desk.ask(worker.hand.session, worker.hand.exchange_of(update));
      REQUIRE(as<Granted>(answer) != nullptr);
      const auto down = static_cast<CodecId>(as<Granted>(answer)->directive.codec_down);
      if (down == CodecId::kQ8) {
        q8 = true;
        CHECK(desk.core().gap().worst_share > 0.003);
        CHECK(desk.core().content().reason_down() == "the published model lags too far behind");
      }
      back = q8 && down == CodecId::kTk1;
    }
    CHECK(q8);
    CHECK(back);
    CHECK(desk.core().gap().worst_share < 0.003);
  }
}
