// The proxy itself: what it lets through, what it holds, and what it changes.
#include "tests/faults/proxy.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

#include "runtime/net/address.h"
#include "tests/support/seed.h"
#include "tests/system/process.h"

using namespace paceline;
using namespace paceline::test;

namespace {

class Socket {
 public:
  explicit Socket(int socket) : socket_(socket) { REQUIRE(socket >= 0); }
  Socket(Socket&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (socket_ >= 0) close(socket_);
  }

  int number() const { return socket_; }
  bool readable(int within_ms) const {
    pollfd poll_for{socket_, POLLIN, 0};
    return poll(&poll_for, 1, within_ms) == 1;
  }
  void write(const std::string& bytes) const {
    REQUIRE(send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  // `count` bytes, or fewer where the other side ends.
  std::string read(size_t count) const {
    std::string bytes(count, '\0');
    size_t got = 0;
    while (got < count && readable(kPatienceMs)) {
      const ssize_t more = recv(socket_, bytes.data() + got, count - got, 0);
      if (more <= 0) break;
      got += static_cast<size_t>(more);
    }
    bytes.resize(got);
    return bytes;
  }
  bool ended() const {
    char byte = 0;
    return readable(kPatienceMs) && recv(socket_, &byte, 1, 0) <= 0;
  }

 private:
  int socket_;
};

sockaddr_in loopback(unsigned port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Two ends, and the proxy between them.
struct Path {
  Socket listener{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::unique_ptr<Proxy> proxy;

  explicit Path(uint64_t stream = 0) {
    sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;
    REQUIRE(bind(listener.number(), reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(listen(listener.number(), 8) == 0);
    REQUIRE(getsockname(listener.number(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    Result<std::unique_ptr<Proxy>> started =
        Proxy::start({.target = "127.0.0.1:" + std::to_string(ntohs(address.sin_port)),
                      .seed = seed(),
                      .stream = stream});
    REQUIRE(started);
    proxy = std::move(*started);
  }
  std::pair<Socket, Socket> connect() const {
    Socket dialer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port_of("tcp://" + proxy->address()));
    REQUIRE(::connect(dialer.number(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof address) == 0);
    REQUIRE(listener.readable(kPatienceMs));
    Socket target(accept(listener.number(), nullptr, nullptr));
    return {std::move(dialer), std::move(target)};
  }
};

std::string noise(size_t count) {
  Random random(seed(), 1);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.below(256));
  return bytes;
}

}  // namespace

TEST_SUITE("faults/proxy") {
  TEST_CASE("without faults all bytes pass both ways, unchanged and in order") {
    const Path path;
    const auto [dialer, target] = path.connect();
    const std::string bytes = noise(50'000);
    dialer.write(bytes);
    CHECK(target.read(bytes.size()) == bytes);
    target.write(bytes);
    CHECK(dialer.read(bytes.size()) == bytes);
    CHECK(wait_until([&] { return path.proxy->bytes_passed() == 2 * bytes.size(); }));
  }

  TEST_CASE("a direction that is held lets nothing pass until it is healed; the other one does") {
    const Path path;
    const auto [dialer, target] = path.connect();
    path.proxy->set_up({.held = true});
    dialer.write("up");
    target.write("down");
    CHECK(dialer.read(4) == "down");
    CHECK_FALSE(target.readable(50));
    path.proxy->heal();
    CHECK(target.read(2) == "up");
  }

  TEST_CASE("a cut ends both sides, and the next connection works") {
    const Path path;
    const auto [dialer, target] = path.connect();
    path.proxy->cut();
    CHECK(dialer.ended());
    CHECK(target.ended());
    const auto [again, there] = path.connect();
    again.write("again");
    CHECK(there.read(5) == "again");
  }

  TEST_CASE("a half-open connection ends on the target's side alone") {
    const Path path;
    const auto [dialer, target] = path.connect();
    path.proxy->half_open();
    CHECK(target.ended());
    dialer.write("to nobody");
    CHECK_FALSE(dialer.readable(50));
  }

  TEST_CASE("an end of one side reaches the other behind its last bytes") {
    const Path path;
    auto [dialer, target] = path.connect();
    dialer.write("goodbye");
    { const Socket gone = std::move(dialer); }
    CHECK(target.read(7) == "goodbye");
    CHECK(target.ended());
  }

  TEST_CASE("a thin link takes no less than its rate says, and a delay comes on top") {
    const Path path;
    const auto [dialer, target] = path.connect();
    path.proxy->set_up({.delay_us = from_ms(100), .bits_per_s = 400e3});
    const std::string bytes = noise(10'000);
    const TimeUs start = monotonic_now_us();
    dialer.write(bytes);
    CHECK(target.read(bytes.size()) == bytes);
    CHECK(monotonic_now_us() - start >= from_ms(300));
  }

  TEST_CASE("bytes are changed where the seed says, in one bit, as often as was asked") {
    const std::string bytes = noise(50'000);
    std::string first;
    for (int run = 0; run < 2; ++run) {
      const Path path;
      const auto [dialer, target] = path.connect();
      path.proxy->set_up({.garbled_share = 0.01});
      dialer.write(bytes);
      const std::string got = target.read(bytes.size());
      REQUIRE(got.size() == bytes.size());
      uint64_t changed = 0;
      for (size_t i = 0; i < bytes.size(); ++i) {
        const auto bits = static_cast<unsigned char>(bytes[i] ^ got[i]);
        CHECK((bits & (bits - 1)) == 0);
        changed += bits != 0;
      }
      CHECK(changed == path.proxy->bytes_garbled());
      CHECK(changed > 400);
      CHECK(changed < 600);
      if (run == 0) first = got;
      CHECK(got == first);
    }
  }

  TEST_CASE("a target that is not there is a connection that ends, not a proxy that does") {
    Path path;
    path.proxy->set_target("127.0.0.1:1");
    Socket dialer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = loopback(port_of("tcp://" + path.proxy->address()));
    REQUIRE(::connect(dialer.number(), reinterpret_cast<const sockaddr*>(&address),
                      sizeof address) == 0);
    CHECK(dialer.ended());
  }
}
