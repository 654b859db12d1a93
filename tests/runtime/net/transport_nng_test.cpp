#include <doctest/doctest.h>

#include <string>

#include "runtime/base/check.h"
#include "runtime/net/transport.h"
#include "tests/runtime/net/raw_peer.h"

namespace paceline::test {
namespace {

constexpr TimeUs kLong = from_ms(20'000);

std::unique_ptr<Listener> listen_somewhere() {
  auto listener = listen_nng({.address = "tcp://127.0.0.1:0"});
  PACELINE_CHECK(listener);
  return std::move(*listener);
}

// Waits until the channel's state says so.
bool comes_to_say(Channel& channel, const std::string& words) {
  const TimeUs deadline = monotonic_now_us() + kLong;
  while (monotonic_now_us() < deadline) {
    if (channel.state().find(words) != std::string::npos) return true;
    Reply reply;
    channel.receive(&reply, monotonic_now_us() + from_ms(5));
  }
  MESSAGE("it says: ", channel.state());
  return false;
}

TEST_SUITE_BEGIN("net/transport_nng");

TEST_CASE("an address that can't be is refused with the way to write it") {
  for (const char* address : {"", "192.0.2.7:7433", "http://host:1", "udp://host:1"}) {
    CAPTURE(address);
    const auto listener = listen_nng({.address = address});
    REQUIRE(!listener);
    CHECK(listener.error().code() == Code::kInvalidArgument);
    CHECK(listener.error().message().find("tcp://HOST:PORT") != std::string::npos);
    const auto channel = dial_nng({.address = address, .link = {}});
    REQUIRE(!channel);
    CHECK(channel.error().code() == Code::kInvalidArgument);
  }
  const auto port = listen_nng({.address = "tcp://127.0.0.1:70000"});
  REQUIRE(!port);
  CHECK(port.error().code() == Code::kInvalidArgument);
}

TEST_CASE("an address in use is refused by name") {
  const auto first = listen_somewhere();
  const auto second = listen_nng({.address = first->address()});
  REQUIRE(!second);
  CHECK(second.error().code() == Code::kIo);
  CHECK(second.error().message() ==
        first->address() + " is in use: stop what listens there or choose another");
}

TEST_CASE("port 0 becomes the port that was chosen") {
  const auto listener = listen_somewhere();
  CHECK(listener->address().starts_with("tcp://127.0.0.1:"));
  CHECK_FALSE(listener->address().ends_with(":0"));
}

TEST_CASE("the state says why there is no connection") {
  std::string address;
  {
    RawServer gone;
    address = gone.address();
  }
  auto channel = std::move(dial_nng({.address = address, .link = {}}).value());
  CHECK(comes_to_say(*channel, "dialing " + address + ": Connection refused"));

  RawServer other;
  channel = std::move(dial_nng({.address = other.address(), .link = {}}).value());
  RawPeer peer(-1);
  REQUIRE(other.accept_within(10'000, &peer));
  peer.send(greeting(kPubProtocol));
  CHECK(comes_to_say(*channel, "is not an edge_server"));

  RawServer web;
  channel = std::move(dial_nng({.address = web.address(), .link = {}}).value());
  REQUIRE(web.accept_within(10'000, &peer));
  peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  CHECK(comes_to_say(*channel, "Protocol error"));

  const auto listener = listen_somewhere();
  channel = std::move(dial_nng({.address = listener->address(), .link = {}}).value());
  CHECK(comes_to_say(*channel, "connected to " + listener->address()));
}

TEST_CASE("a request to nobody times out, and its message is not counted as sent") {
  RawServer nobody;
  auto channel = std::move(dial_nng({.address = nobody.address(), .link = {}}).value());
  channel->send(Lane::kExchange, Bytes(100), from_ms(30));
  Reply reply;
  REQUIRE(channel->receive(&reply, monotonic_now_us() + kLong));
  CHECK(reply.status.code() == Code::kTimeout);
  CHECK(reply.status.message() == "no answer from " + nobody.address() + " in 0.0 s");
  CHECK(channel->bytes_sent() == 0);
}

TEST_CASE("a broken connection ends what waits on it at once, as unavailable") {
  auto listener = listen_somewhere();
  auto channel = std::move(dial_nng({.address = listener->address(), .link = {}}).value());
  channel->send(Lane::kExchange, Bytes(100), kLong);
  Request request;
  REQUIRE(listener->receive(&request, monotonic_now_us() + kLong));
  listener.reset();
  Reply reply;
  REQUIRE(channel->receive(&reply, monotonic_now_us() + kLong));
  CHECK(reply.status.code() == Code::kUnavailable);
}

TEST_CASE("a thin link takes its time each way, and a heartbeat overtakes bulk") {
  constexpr size_t kBytes = 37'500;  // 300 ms at 1 Mbit/s
  auto listener = listen_somewhere();
  auto channel = std::move(dial_nng({.address = listener->address(),
                                     .link = {.up_bits_per_s = 1e6, .down_bits_per_s = 1e6}})
                               .value());
  const TimeUs start = monotonic_now_us();
  channel->send(Lane::kExchange, Bytes(kBytes), kLong);
  channel->send(Lane::kHeartbeat, Bytes(100), kLong);
  Request request;
  Reply reply;
  REQUIRE(listener->receive(&request, start + kLong));
  CHECK(request.message.size() == 100);
  request.responder->reply(Bytes(100));
  REQUIRE(channel->receive(&reply, start + kLong));
  CHECK(reply.lane == Lane::kHeartbeat);
  REQUIRE(listener->receive(&request, start + kLong));
  CHECK(monotonic_now_us() - start >= from_ms(300));
  request.responder->reply(Bytes(kBytes));
  REQUIRE(channel->receive(&reply, start + kLong));
  CHECK(reply.lane == Lane::kExchange);
  CHECK(monotonic_now_us() - start >= from_ms(600));
}

TEST_CASE("a message that the link can't carry in time is a time-out, and is not sent") {
  auto listener = listen_somewhere();
  auto channel = std::move(dial_nng({.address = listener->address(),
                                     .link = {.up_bits_per_s = 64e3, .down_bits_per_s = 64e3}})
                               .value());
  channel->send(Lane::kExchange, Bytes(100'000), from_ms(50));
  Reply reply;
  REQUIRE(channel->receive(&reply, monotonic_now_us() + kLong));
  CHECK(reply.status.code() == Code::kTimeout);
  Request request;
  CHECK_FALSE(listener->receive(&request, monotonic_now_us() + from_ms(20)));
  CHECK(channel->bytes_sent() == 0);
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
