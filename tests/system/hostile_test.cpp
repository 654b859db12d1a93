// A peer that speaks the transport and the message format, and means no good. Whatever it sends,
// the server lives, and an honest worker gets on.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/net/transport.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/payload.h"
#include "runtime/train/training.h"
#include "runtime/wire/messages.h"
#include "tests/runtime/net/raw_peer.h"
#include "tests/runtime/wire/random_message.h"
#include "tests/support/hostile_payloads.h"
#include "tests/support/seed.h"
#include "tests/system/site.h"

using namespace paceline;
using namespace paceline::test;

namespace {

constexpr uint64_t kIncarnation = 77;
constexpr uint32_t kRequests = 400;
constexpr TimeUs kAnswerUs = from_ms(20'000);
constexpr TimeUs kMomentUs = from_ms(4);

// Speaks for a worker by hand.
class Peer {
 public:
  explicit Peer(const std::string& address) {
    auto channel = dial_nng({.address = address, .link = {}});
    REQUIRE(channel.has_value());
    channel_ = std::move(*channel);
  }

  // Sends, and gives the server a moment to read it: a request that a newer one of its lane finds
  // unsent is dropped.
  void send(Bytes message, Lane lane = Lane::kExchange) {
    channel_->send(lane, std::move(message), kAnswerUs);
    Reply reply;
    channel_->receive(&reply, monotonic_now_us() + kMomentUs);
  }
  // The answer on kExchange; the request must be one that is answered at once.
  Message ask(const Message& message) { return ask(Envelope{session_, message}); }
  Message ask(const Envelope& envelope) {
    const uint64_t request = channel_->send(Lane::kExchange, encode(envelope), kAnswerUs);
    Reply reply;
    const TimeUs deadline = monotonic_now_us() + kAnswerUs;
    while (channel_->receive(&reply, deadline)) {
      if (reply.lane != Lane::kExchange || reply.request != request) continue;
      REQUIRE_MESSAGE(reply.status.ok(), reply.status.message());
      Result<Envelope> answer = decode(reply.message);
      REQUIRE(answer.has_value());
      return std::move(answer->message);
    }
    FAIL("no answer");
    return {};
  }
  Welcome join(const std::string& name) {
    const Message answer = ask(Envelope{0, hello(name)});
    REQUIRE(std::holds_alternative<Welcome>(answer));
    session_ = std::get<Welcome>(answer).session;
    return std::get<Welcome>(answer);
  }
  static Hello hello(const std::string& name) {
    Hello hello;
    hello.name = name;
    hello.incarnation = kIncarnation;
    hello.training_rows = 100;
    hello.held_out_rows = 10;
    hello.feature_count = 8;
    hello.class_count = 3;
    return hello;
  }
  uint64_t session() const { return session_; }

 private:
  std::unique_ptr<Channel> channel_;
  uint64_t session_ = 0;
};

// A server with short patience, and one honest worker on it.
struct Victim {
  Site site;
  RunText run;
  Process server;
  Process honest;

  static RunText impatient() {
    RunText run;
    run.exchange_deadline_ms = 300;
    return run;
  }
  Victim()
      : run(impatient()),
        server(site.server(run)),
        honest(site.worker("honest", {"--step-ms", "1"})) {
    goes_on();
  }
  void goes_on() {
    for (Process* process : {&server, &honest}) {
      const size_t known = process->err().size();
      CHECK_MESSAGE(wait_until([&] {
                      const std::string log = process->err().substr(known);
                      return checksums_of(log).size() >= 5 || !process->running();
                    }),
                    tail_of(process->err()));
    }
    REQUIRE_MESSAGE(server.running(), tail_of(server.err()));
    REQUIRE_MESSAGE(honest.running(), tail_of(honest.err()));
  }
  void ends_in_order() {
    goes_on();
    honest.signal(SIGTERM);
    CHECK_MESSAGE(honest.wait_exit() == 0, tail_of(honest.err()));
    server.signal(SIGTERM);
    CHECK_MESSAGE(server.wait_exit() == 0, tail_of(server.err()));
  }
};

Bytes random_bytes(Random& random, size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

EncodedUpdate small_update(const ParameterLayout& layout, CodecId codec, const Welcome& welcome) {
  std::vector<float> update(layout.element_count(), 0.0f), residual(update.size(), 0.0f);
  update[0] = 0x1p-10f;
  EncodedUpdate encoded;
  REQUIRE(
      encode_update(layout, codec, {welcome.seed, welcome.publication}, update, residual, &encoded)
          .ok());
  return encoded;
}

Refused expect_refused(const Message& answer) {
  REQUIRE_MESSAGE(std::holds_alternative<Refused>(answer), message_name(answer));
  return std::get<Refused>(answer);
}

}  // namespace

TEST_SUITE("system/hostile") {
  TEST_CASE("a worker of another protocol is refused with both ranges and what to do") {
    Victim victim;
    Peer peer(victim.site.address());
    Hello old = Peer::hello("old"), young = Peer::hello("young");
    old.protocol_min = old.protocol_max = 0;
    young.protocol_min = young.protocol_max = 99;
    Refused refused = expect_refused(peer.ask(Envelope{0, old}));
    CHECK(refused.refusal == RefusalClass::kNotAllowed);
    CHECK(refused.reason == "the worker speaks protocol 0 to 0, this server 1 to 2");
    CHECK(refused.fix == "install the same version");
    refused = expect_refused(peer.ask(Envelope{0, young}));
    CHECK(refused.reason == "the worker speaks protocol 99 to 99, this server 1 to 2");
    victim.ends_in_order();
  }

  TEST_CASE("bytes that are no message are dropped") {
    Victim victim;
    Peer peer(victim.site.address());
    Random random(seed(), 1);
    Hello named = Peer::hello(std::string(kNameBytesMax, 'n'));
    const Bytes good = encode(Envelope{0, named});
    // A name of one byte more than is allowed, and one that says it is 4 GB long.
    const std::string name = named.name;
    const ByteSpan name_bytes = std::as_bytes(std::span(name));
    const auto place = std::search(good.begin(), good.end(), name_bytes.begin(), name_bytes.end());
    REQUIRE(place != good.end());
    for (const uint32_t length : {uint32_t{kNameBytesMax + 1}, UINT32_MAX}) {
      Bytes bad = good;
      std::memcpy(bad.data() + (place - good.begin()) - sizeof length, &length, sizeof length);
      peer.send(bad);
    }
    const auto below = [&](size_t bound) { return static_cast<size_t>(random.below(bound)); };
    for (uint32_t i = 0; i < kRequests; ++i) {
      Bytes bad = good;
      switch (random.below(4)) {
        case 0:
          bad = random_bytes(random, below(2000));
          break;
        case 1:
          bad.resize(below(bad.size()));
          break;
        case 2:
          bad.insert(bad.end(), 1 + below(3000), std::byte{0});
          break;
        default:
          bad[below(bad.size())] ^= static_cast<std::byte>(1 << random.below(8));
      }
      peer.send(std::move(bad));
    }
    // Some are named, the rest is counted: nobody fills the log from outside.
    size_t lines = 0;
    for (const std::string& line : lines_of(victim.server.err()))
      lines += line.find("a broken message from tcp://127.0.0.1:") != std::string::npos;
    CHECK(lines >= 5);
    CHECK(lines < 20);
    victim.ends_in_order();
  }

  TEST_CASE("an update that is not what a worker would send is refused, not applied") {
    Victim victim;
    Peer peer(victim.site.address());
    const Welcome welcome = peer.join("mallory");
    const Result<RunSpec> run = parse_run(welcome.run);
    REQUIRE(run.has_value());
    const ParameterLayout& layout = run->model.layout;
    const EncodedUpdate good = small_update(layout, CodecId::kQ8, welcome);
    Push push;
    push.incarnation = kIncarnation;
    push.sequence = welcome.next_sequence;
    push.update_checksum = good.checksum;
    push.chunk_count = layout.chunk_count();
    push.payload = good.chunks[0];
    const auto refused_push = [&](Push bad) {
      bad.sequence = push.sequence++;
      return expect_refused(peer.ask(bad));
    };

    Push bad = push;
    bad.chunk_count = 7;
    CHECK(refused_push(bad).refusal == RefusalClass::kContent);
    bad = push;
    bad.chunk = 1;
    CHECK(refused_push(bad).refusal == RefusalClass::kContent);
    bad = push;
    bad.incarnation = 78;
    CHECK(refused_push(bad).refusal == RefusalClass::kStaleSession);
    for (const HostilePayload& hostile : hostile_payloads(good.chunks[0])) {
      bad = push;
      bad.payload = hostile.payload;
      const Refused refused = refused_push(bad);
      CHECK_MESSAGE(refused.refusal == RefusalClass::kContent, hostile.name);
      CHECK_MESSAGE(refused.reason.find(hostile.reason) != std::string::npos,
                    hostile.name << ": " << refused.reason);
    }

    // Chunks that are not what the commit says: asked for again, and again, and never applied.
    push.update_checksum ^= 1;
    CHECK(std::holds_alternative<Got>(peer.ask(push)));
    Exchange exchange;
    exchange.incarnation = kIncarnation;
    exchange.sequence = push.sequence;
    exchange.update_checksum = push.update_checksum;
    exchange.chunk_count = push.chunk_count;
    exchange.generation = welcome.generation;
    exchange.base_publication = welcome.publication;
    exchange.round = UINT64_MAX;
    exchange.steps = 1;
    CHECK(expect_refused(peer.ask(exchange)).refusal == RefusalClass::kLate);
    // A sequence that was refused stays refused.
    CHECK(expect_refused(peer.ask(exchange)).refusal == RefusalClass::kLate);
    exchange.sequence += 1;
    exchange.steps = UINT32_MAX;
    CHECK(expect_refused(peer.ask(exchange)).refusal == RefusalClass::kContent);
    victim.ends_in_order();
  }

  TEST_CASE("a flood of requests that waits for no answer holds up nobody else") {
    Victim victim;
    Peer peer(victim.site.address());
    peer.join("mallory");
    Heartbeat beat;
    beat.incarnation = kIncarnation;
    const Bytes envelope = encode({peer.session(), beat});
    const std::string frame =
        announce(4 + envelope.size()) + std::string("\x80\0\0\1", 4) +
        std::string(reinterpret_cast<const char*>(envelope.data()), envelope.size());
    std::string frames;
    for (int i = 0; i < 1000; ++i) frames += frame;
    RawPeer flood = RawPeer::connect_to(victim.site.address());
    flood.send(greeting(kReqProtocol));
    for (int i = 0; i < 20; ++i) flood.send(frames);
    victim.goes_on();
    // Another connection: without certificates it is another worker.
    CHECK(std::holds_alternative<HeartbeatReply>(peer.ask(beat)));
    for (int i = 0; i < 20; ++i) flood.send(frames);
    victim.ends_in_order();
  }

  TEST_CASE("well-formed messages of any content, in any order, harm nobody") {
    Victim victim;
    Peer peer(victim.site.address());
    Random random(seed(), 2);
    RandomMessage any(seed(), 4000);
    Welcome welcome = peer.join("mallory");
    const Result<RunSpec> run = parse_run(welcome.run);
    REQUIRE(run.has_value());
    const ParameterLayout& layout = run->model.layout;
    uint64_t sequence = welcome.next_sequence;
    for (uint32_t i = 0; i < 3 * kRequests; ++i) {
      Message message = any.next(static_cast<size_t>(random.below(std::variant_size_v<Message>)));
      // Half of them with what a message needs to be looked at closely.
      const bool plausible = random.below(2) == 0;
      const EncodedUpdate update =
          small_update(layout, random.below(2) == 0 ? CodecId::kRaw32 : CodecId::kS1r, welcome);
      if (auto* push = std::get_if<Push>(&message); push != nullptr && plausible) {
        push->incarnation = kIncarnation;
        push->sequence = sequence - random.below(2);
        push->chunk = 0;
        push->chunk_count = layout.chunk_count();
        push->payload = update.chunks[0];
        if (random.below(2) == 0) push->update_checksum = update.checksum;
      } else if (auto* exchange = std::get_if<Exchange>(&message); exchange && plausible) {
        exchange->incarnation = kIncarnation;
        exchange->sequence = sequence++;
        exchange->generation = welcome.generation;
        exchange->base_publication = welcome.publication;
        exchange->steps = 1;
        exchange->chunk_count = layout.chunk_count() * static_cast<uint32_t>(random.below(2));
        exchange->update_checksum = update.checksum;
      } else if (auto* ready = std::get_if<Ready>(&message); ready != nullptr && plausible) {
        ready->incarnation = kIncarnation;
      } else if (auto* fetch = std::get_if<Fetch>(&message); fetch != nullptr && plausible) {
        fetch->generation = welcome.generation;
        fetch->chunk = 0;
        fetch->from = random.below(40);
      } else if (auto* hello = std::get_if<Hello>(&message); hello != nullptr && plausible) {
        *hello = Peer::hello("mallory");
        hello->generation = welcome.generation;
        hello->publication = random.below(3) == 0 ? UINT64_MAX : 1;
        hello->training_rows = UINT64_MAX;
        hello->held_out_rows = UINT64_MAX;
      }
      const auto lane = static_cast<Lane>(random.below(kLaneCount));
      const uint64_t session = random.below(4) == 0 ? random.next() : peer.session();
      peer.send(encode(Envelope{session, message}), lane);
      // What may be parked is not waited for; now and then the session is taken up again.
      if (i % 20 == 19) {
        welcome = peer.join("mallory");
        sequence = welcome.next_sequence;
      }
    }
    victim.ends_in_order();
  }
}
