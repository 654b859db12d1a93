#include "runtime/net/loopback.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST_SUITE_BEGIN("net/loopback");

struct Network {
  explicit Network(const LoopbackFaults& faults, uint64_t with_seed = seed())
      : network(make_loopback(with_seed, faults)) {}

  std::unique_ptr<LoopbackNetwork> network;
  std::unique_ptr<Listener> listener = network->listen();
  std::unique_ptr<Channel> channel = network->dial("worker");
};

TEST_CASE("a message takes the delay each way, to the microsecond") {
  Network n({.delay_us = 300, .link = {}});
  n.channel->send(Lane::kExchange, Bytes(10), from_ms(100));
  Request request;
  CHECK(n.network->next_due() == 300);
  n.network->advance_to(299);
  CHECK_FALSE(n.listener->receive(&request, kNever));
  n.network->advance_to(300);
  REQUIRE(n.listener->receive(&request, kNever));
  n.network->advance_to(1000);
  request.responder->reply(Bytes(5));
  Reply reply;
  CHECK(n.network->next_due() == 1300);
  CHECK_FALSE(n.channel->receive(&reply, kNever));
  n.network->advance_to(1300);
  CHECK(n.network->next_due() == 1300);  // delivered and not taken
  REQUIRE(n.channel->receive(&reply, kNever));
  CHECK(reply.status.ok());
  CHECK(n.network->next_due() == kNever);  // the time-out went with the reply
}

TEST_CASE("a channel with a link of its own keeps it, and an outage cuts it off for its time") {
  Network n({.delay_us = 300});
  LoopbackFaults own;
  own.delay_us = 100;
  own.outages = {{1000, 2000}};
  const std::unique_ptr<Channel> other = n.network->dial("other", own);
  n.network->set_faults({.delay_us = 500});
  Request request;
  const auto arrives = [&](Channel& channel, TimeUs at) {
    n.network->advance_to(at);
    while (n.listener->receive(&request, kNever)) {
    }
    channel.send(Lane::kExchange, Bytes(1), kNever / 2);
    n.network->advance_to(at + 100);
    return n.listener->receive(&request, kNever);
  };
  CHECK(arrives(*other, 0));
  CHECK_FALSE(arrives(*n.channel, 200));
  CHECK_FALSE(arrives(*other, 500 + 450));  // on its way when the outage begins
  CHECK_FALSE(arrives(*other, 1500));
  CHECK(arrives(*other, 2000));
}

TEST_CASE("at the same moment things arrive in the order in which they were sent") {
  Network n({.link = {}});
  auto second = n.network->dial("second");
  for (int i = 0; i < 10; ++i) {
    (i % 2 == 0 ? n.channel : second)
        ->send(i % 4 < 2 ? Lane::kExchange : Lane::kHeartbeat, Bytes(1, std::byte(i)), kNever / 2);
  }
  Request request;
  for (int i = 0; i < 10; ++i) {
    REQUIRE(n.listener->receive(&request, 0));
    CHECK(request.message == Bytes(1, std::byte(i)));
    request.responder.reset();
  }
  CHECK_FALSE(n.listener->receive(&request, 0));
}

TEST_CASE("a thin link holds back bulk, and a heartbeat slips through") {
  Network n({.link = {.up_bits_per_s = 1e6, .down_bits_per_s = 0}});
  n.channel->send(Lane::kExchange, Bytes(12'500), from_ms(10'000));
  n.channel->send(Lane::kHeartbeat, Bytes(125), from_ms(10'000));
  Request request;
  n.network->advance_to(from_ms(1));
  REQUIRE(n.listener->receive(&request, 0));
  CHECK(request.message.size() == 125);
  CHECK(n.network->next_due() == from_ms(100));
  n.network->advance_to(from_ms(100));
  REQUIRE(n.listener->receive(&request, 0));
  CHECK(request.message.size() == 12'500);
}

TEST_CASE("losses and duplicates come at their rates, and a duplicate gets one reply") {
  constexpr int kRequests = 4000;
  Network n({.request_loss = 0.25, .reply_loss = 0.1, .duplication = 0.5, .link = {}});
  int requests = 0;
  int replies = 0;
  int timeouts = 0;
  for (int i = 0; i < kRequests; ++i) {
    n.channel->send(Lane::kExchange, Bytes(1), 10);
    Request request;
    while (n.listener->receive(&request, 0)) {
      ++requests;
      request.responder->reply(Bytes(1));
    }
    n.network->advance_to(n.network->now() + 10);
    Reply reply;
    REQUIRE(n.channel->receive(&reply, 0));
    (reply.status.ok() ? replies : timeouts) += 1;
    REQUIRE_FALSE(n.channel->receive(&reply, 0));
  }
  CHECK(replies + timeouts == kRequests);
  // Expected 4500 and 2835, each within more than five standard deviations.
  CHECK(requests == doctest::Approx(4500).epsilon(0.06));
  CHECK(replies == doctest::Approx(kRequests * 0.75 * (0.5 * 0.9 + 0.5 * 0.99)).epsilon(0.06));
}

// One line for everything that happens, with its time.
std::string story(uint64_t with_seed) {
  Network n({.delay_us = 500,
             .jitter_us = 400,
             .request_loss = 0.2,
             .reply_loss = 0.2,
             .duplication = 0.2,
             .link = {.up_bits_per_s = 1e6, .down_bits_per_s = 2e6}},
            with_seed);
  std::vector<std::unique_ptr<Channel>> channels;
  for (const char* name : {"a", "b", "c"}) channels.push_back(n.network->dial(name));
  std::string told;
  for (int step = 0; step < 300; ++step) {
    for (size_t i = 0; i < channels.size(); ++i)
      if (step % static_cast<int>(i + 2) == 0)
        channels[i]->send(static_cast<Lane>(step % 3), Bytes(static_cast<size_t>(step)), 4000);
    n.network->advance_to(n.network->now() + 777);
    Request request;
    while (n.listener->receive(&request, 0)) {
      told += request.peer_address + std::to_string(request.message.size()) + " ";
      request.responder->reply(Bytes(request.message.size() / 2));
    }
    Reply reply;
    for (const auto& channel : channels)
      while (channel->receive(&reply, 0))
        told += std::to_string(reply.request) + (reply.status.ok() ? "+" : "-") + " ";
  }
  return told;
}

TEST_CASE("the same seed and the same calls tell the same story; another seed another") {
  CHECK(story(1) == story(1));
  CHECK(story(1) != story(2));
}

TEST_CASE("jitter lets one message overtake another") {
  Network n({.jitter_us = 1000, .link = {}});
  bool overtaken = false;
  for (int i = 0; i < 100 && !overtaken; ++i) {
    n.channel->send(Lane::kExchange, Bytes(1), from_ms(10));
    n.channel->send(Lane::kHeartbeat, Bytes(2), from_ms(10));
    n.network->advance_to(n.network->now() + 1000);
    Request first;
    Request second;
    REQUIRE(n.listener->receive(&first, 0));
    REQUIRE(n.listener->receive(&second, 0));
    overtaken = first.message.size() == 2;
  }
  CHECK(overtaken);
}

TEST_CASE("nobody listening: a request is lost and times out") {
  Network n({.link = {}});
  n.listener.reset();
  n.channel->send(Lane::kReady, Bytes(1), from_ms(5));
  n.network->advance_to(from_ms(5));
  Reply reply;
  REQUIRE(n.channel->receive(&reply, 0));
  CHECK(reply.status.code() == Code::kTimeout);
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
