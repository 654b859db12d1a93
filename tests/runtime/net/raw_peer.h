// A TCP peer that sends whatever bytes a test likes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/base/check.h"

namespace paceline::test {

// The greetings of the protocols that NNG knows by these numbers.
inline std::string greeting(uint16_t protocol) {
  std::string bytes("\0SP\0\0\0\0\0", 8);
  bytes[4] = static_cast<char>(protocol >> 8);
  bytes[5] = static_cast<char>(protocol & 0xff);
  return bytes;
}
inline constexpr uint16_t kReqProtocol = 0x30;
inline constexpr uint16_t kRepProtocol = 0x31;
inline constexpr uint16_t kPubProtocol = 0x20;

// The length that stands before each message.
inline std::string announce(uint64_t length) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(length >> shift);
  return bytes;
}

class RawPeer {
 public:
  explicit RawPeer(int descriptor) : descriptor_(descriptor) {}
  RawPeer(RawPeer&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  RawPeer& operator=(RawPeer&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~RawPeer() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  // To "tcp://127.0.0.1:PORT".
  static RawPeer connect_to(const std::string& address) {
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in to = loopback(static_cast<uint16_t>(port));
    PACELINE_CHECK(connect(descriptor, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    return RawPeer(descriptor);
  }

  // What the other side has closed takes no more: that is no error here.
  void send(const std::string& bytes) {
    (void)!::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  // Reads and forgets until the other side closes. False: it didn't within the time.
  bool closed_within(int timeout_ms) {
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    char bytes[4096];
    while (poll(&wait, 1, timeout_ms) == 1)
      if (recv(descriptor_, bytes, sizeof bytes, 0) <= 0) return true;
    return false;
  }

  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

 private:
  int descriptor_;
};

class RawServer {
 public:
  RawServer() : descriptor_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = RawPeer::loopback(0);
    socklen_t length = sizeof at;
    PACELINE_CHECK(bind(descriptor_, reinterpret_cast<const sockaddr*>(&at), length) == 0);
    PACELINE_CHECK(listen(descriptor_, 16) == 0);
    PACELINE_CHECK(getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &length) == 0);
    address_ = "tcp://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;
  ~RawServer() { close(descriptor_); }

  const std::string& address() const { return address_; }

  // False: nobody connected within the time.
  bool accept_within(int timeout_ms, RawPeer* peer) {
    pollfd wait{.fd = descriptor_, .events = POLLIN, .revents = 0};
    if (poll(&wait, 1, timeout_ms) != 1) return false;
    *peer = RawPeer(accept(descriptor_, nullptr, nullptr));
    return true;
  }

 private:
  int descriptor_;
  std::string address_;
};

}  // namespace paceline::test
