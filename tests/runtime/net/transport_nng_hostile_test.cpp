// What somebody without a key can send to the port of a server, and what a server must bear.
#include <doctest/doctest.h>
#include <linux/tcp.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/net/transport.h"
#include "tests/runtime/net/raw_peer.h"
#include "tests/support/seed.h"
#include "tests/support/tls_fleet.h"

namespace paceline::test {
namespace {

constexpr TimeUs kLong = from_ms(20'000);
constexpr int kCloseTimeoutMs = 10'000;

std::unique_ptr<Listener> listen_with(const ListenOptions& options) {
  auto listener = listen_nng(options);
  PACELINE_CHECK(listener);
  return std::move(*listener);
}

std::unique_ptr<Listener> listen_for(uint32_t sessions_max) {
  return listen_with({.address = "tcp://127.0.0.1:0", .sessions_max = sessions_max});
}

// Asks like a worker, again if the connection breaks, and answers like a core, which drops what a
// hostile peer managed to send as a request.
bool serves_an_honest_client(Listener& listener,
                             const std::optional<TlsOptions>& tls = std::nullopt) {
  auto channel = dial_nng({.address = listener.address(), .link = {}, .tls = tls});
  PACELINE_CHECK(channel);
  const Bytes question(1000, std::byte{7});
  (*channel)->send(Lane::kExchange, question, kLong);
  const TimeUs deadline = monotonic_now_us() + kLong;
  while (monotonic_now_us() < deadline) {
    Request request;
    if (listener.receive(&request, monotonic_now_us() + from_ms(10)) && request.message == question)
      request.responder->reply(question);
    Reply reply;
    if (!(*channel)->receive(&reply, monotonic_now_us() + from_ms(10))) continue;
    if (reply.status.ok()) return reply.message == question;
    (*channel)->send(Lane::kExchange, question, kLong);
  }
  return false;
}

TEST_SUITE_BEGIN("net/transport_nng/hostile");

TEST_CASE("garbage instead of a greeting closes the connection and harms nobody") {
  auto listener = listen_for(8);
  Random random(seed(), 1);
  for (int i = 0; i < 50; ++i) {
    RawPeer peer = RawPeer::connect_to(listener->address());
    std::string garbage(8 + static_cast<size_t>(random.below(200)), ' ');
    for (char& byte : garbage) byte = static_cast<char>(random.next() | 1);
    peer.send(garbage);
    REQUIRE(peer.closed_within(kCloseTimeoutMs));
  }
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("a greeting of another protocol is refused") {
  auto listener = listen_for(8);
  for (const uint16_t protocol : {kRepProtocol, kPubProtocol, uint16_t{0}, uint16_t{0xffff}}) {
    RawPeer peer = RawPeer::connect_to(listener->address());
    peer.send(greeting(protocol));
    CHECK(peer.closed_within(kCloseTimeoutMs));
  }
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("a message announced above the largest size closes the connection at once") {
  auto listener = listen_for(8);
  for (const uint64_t length :
       {uint64_t{kMessageBytesMax} + 5, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 63,
        UINT64_MAX - 8, UINT64_MAX - 1, UINT64_MAX}) {
    CAPTURE(length);
    RawPeer peer = RawPeer::connect_to(listener->address());
    peer.send(greeting(kReqProtocol) + announce(length) + std::string(100, 'x'));
    CHECK(peer.closed_within(kCloseTimeoutMs));
  }
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("messages without a request number, and short ones, close only their own connection") {
  auto listener = listen_for(8);
  for (const size_t length : {size_t{0}, size_t{1}, size_t{3}}) {
    RawPeer peer = RawPeer::connect_to(listener->address());
    peer.send(greeting(kReqProtocol) + announce(length) + std::string(length, 'x'));
    CHECK(peer.closed_within(kCloseTimeoutMs));
  }
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("half messages and silent connections leave room for honest ones") {
  auto listener = listen_for(256);
  std::vector<RawPeer> peers;
  for (int i = 0; i < 200; ++i) peers.push_back(RawPeer::connect_to(listener->address()));
  for (size_t i = 0; i < peers.size(); i += 2)
    peers[i].send(greeting(kReqProtocol) + announce(kMessageBytesMax) + std::string(500, 'x'));
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("many unanswered requests of one connection leave the listener working") {
  auto listener = listen_for(8);
  RawPeer peer = RawPeer::connect_to(listener->address());
  std::string flood = greeting(kReqProtocol);
  for (int i = 0; i < 500; ++i) flood += announce(5) + std::string("\x80\0\0\1x", 5);
  peer.send(flood);
  std::vector<Request> parked(10);
  for (Request& request : parked) REQUIRE(listener->receive(&request, monotonic_now_us() + kLong));
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("a connection that takes no answers is cut off before it holds up the others") {
  auto listener = listen_for(8);
  RawPeer deaf = RawPeer::connect_to(listener->address());
  std::string flood = greeting(kReqProtocol);
  for (int i = 0; i < 2000; ++i) flood += announce(5) + std::string("\x80\0\0\1x", 5);
  deaf.send(flood);
  // More than its and our sockets' buffers hold.
  for (int i = 0; i < 200; ++i) {
    Request request;
    if (!listener->receive(&request, monotonic_now_us() + from_ms(500))) break;
    request.responder->reply(Bytes(500'000));
  }
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("connections beyond the bound are refused, and silent ones make room in time") {
  constexpr uint32_t kSessionsMax = 4;
  constexpr size_t kConnectionsMax = kSessionsMax + 64;
  auto listener = listen_with(
      {.address = "tcp://127.0.0.1:0", .sessions_max = kSessionsMax, .silence_timeout_ms = 700});
  std::vector<RawPeer> peers;
  for (size_t i = 0; i < kConnectionsMax + 30; ++i) {
    peers.push_back(RawPeer::connect_to(listener->address()));
    peers.back().send(greeting(kReqProtocol));
  }
  // Nobody calls receive() yet, so nobody is closed for silence.
  size_t open_count = peers.size();
  for (int tries = 0; tries < 20 && open_count > kConnectionsMax; ++tries) {
    open_count = 0;
    for (RawPeer& peer : peers) open_count += peer.closed_within(10) ? 0 : 1;
  }
  CHECK(open_count <= kConnectionsMax);
  CHECK(open_count >= kConnectionsMax / 2);
  CHECK(serves_an_honest_client(*listener));
}

TEST_CASE("a server that freezes after the greeting is dialed again") {
  RawServer server;
  auto channel = dial_nng({.address = server.address(), .link = {}, .silence_timeout_ms = 100});
  REQUIRE(channel);
  RawPeer frozen(-1);
  REQUIRE(server.accept_within(kCloseTimeoutMs, &frozen));
  frozen.send(greeting(kRepProtocol));
  RawPeer again(-1);
  bool dialed_again = false;
  for (int i = 0; i < 100 && !dialed_again; ++i) {
    (*channel)->send(Lane::kHeartbeat, Bytes(10), from_ms(50));
    Reply reply;
    REQUIRE((*channel)->receive(&reply, monotonic_now_us() + kLong));
    CHECK(reply.status.code() == Code::kTimeout);
    dialed_again = server.accept_within(i < 6 ? 0 : 200, &again);
  }
  CHECK(dialed_again);
}

TEST_CASE("a server that says nothing in the handshake is dialed afresh") {
  const TlsFleet fleet;
  RawServer server;
  auto channel = dial_nng({.address = "tls+" + server.address(),
                           .link = {},
                           .dial_timeout_ms = 100,
                           .tls = fleet.worker("patient")});
  REQUIRE(channel);
  RawPeer silent(-1), again(-1);
  REQUIRE(server.accept_within(kCloseTimeoutMs, &silent));
  bool dialed_again = false;
  for (int i = 0; i < 100 && !dialed_again; ++i) {
    Reply reply;
    (*channel)->receive(&reply, monotonic_now_us() + from_ms(100));
    dialed_again = server.accept_within(0, &again);
  }
  CHECK(dialed_again);
  CHECK(silent.closed_within(kCloseTimeoutMs));
}

TEST_CASE("a server that answers above the largest size, or rubbish, ends the connection only") {
  RawServer server;
  auto channel = dial_nng({.address = server.address(), .link = {}});
  REQUIRE(channel);
  for (const std::string& answer :
       {announce(UINT64_MAX - 3), announce(kMessageBytesMax + 5), announce(2) + "xx",
        std::string("HTTP/1.1 400 Bad Request\r\n\r\n")}) {
    RawPeer peer(-1);
    REQUIRE(server.accept_within(kCloseTimeoutMs, &peer));
    peer.send(greeting(kRepProtocol) + answer);
    CHECK(peer.closed_within(kCloseTimeoutMs));
  }
}

TEST_CASE("a thousand silent connections under TLS are ended, and hold up nobody meanwhile") {
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
  const auto peer_count = static_cast<size_t>(std::min<rlim_t>(1000, (files.rlim_cur - 100) / 2));
  const auto open_files = [] {
    using Folder = std::filesystem::directory_iterator;
    return std::distance(Folder("/proc/self/fd"), Folder());
  };
  const TlsFleet fleet;
  auto listener =
      listen_with({.address = "tls+tcp://127.0.0.1:0", .sessions_max = 8, .tls = fleet.server()});
  const auto before = open_files();
  std::vector<RawPeer> peers;
  for (size_t i = 0; i < peer_count; ++i) peers.push_back(RawPeer::connect_to(listener->address()));
  peers.front().send("\x16\x03\x01");  // one that began
  CHECK(serves_an_honest_client(*listener, fleet.worker("honest")));
  // Their own side sees the end; the listener's owner goes on asking for requests.
  const TimeUs deadline = monotonic_now_us() + kLong;
  const auto with_peers = before + static_cast<std::ptrdiff_t>(peer_count);
  Request request;
  while (open_files() > with_peers && monotonic_now_us() < deadline)
    listener->receive(&request, monotonic_now_us() + from_ms(50));
  CHECK(open_files() <= with_peers);
  CHECK(std::ranges::all_of(peers, [](RawPeer& peer) { return peer.closed_within(1'000); }));
  CHECK(serves_an_honest_client(*listener, fleet.worker("honest")));
}

// An emulator may not.
bool system_tells_bytes_received() {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  tcp_info about{};
  socklen_t bytes = sizeof about;
  const bool told = getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &about, &bytes) == 0 &&
                    bytes > offsetof(tcp_info, tcpi_bytes_received);
  close(descriptor);
  return told;
}

TEST_CASE(
    "of many handshakes from one source those that have begun are not cut off with the silent") {
  const TlsFleet fleet;
  auto listener =
      listen_with({.address = "tls+tcp://127.0.0.1:0", .sessions_max = 8, .tls = fleet.server()});
  std::vector<RawPeer> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(RawPeer::connect_to(listener->address()));
  // The beginning of a record that holds a ClientHello; the server waits for the rest.
  RawPeer begun = RawPeer::connect_to(listener->address());
  begun.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
             std::string(89, 'x'));
  const TimeUs deadline = monotonic_now_us() + kLong;
  Request request;
  size_t open_count = silent.size();
  while (open_count > 0 && monotonic_now_us() < deadline) {
    listener->receive(&request, monotonic_now_us() + from_ms(50));
    open_count = 0;
    for (RawPeer& peer : silent) open_count += peer.closed_within(0) ? 0 : 1;
  }
  CHECK(open_count == 0);
  if (system_tells_bytes_received()) CHECK_FALSE(begun.closed_within(0));
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
