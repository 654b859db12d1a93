#include "runtime/net/handshake_reaper.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

namespace {

// A board at 64 kbit/s has sent its greeting long before.
constexpr TimeUs kPatienceUs = from_ms(10'000);
// With so many of one source under way, each that says nothing has this time only.
constexpr size_t kPerSourceMax = 32;
constexpr TimeUs kPatienceCrowdedUs = from_ms(1000);
// Who has sent a ClientHello waits for us: when a whole fleet comes back at once, some hundreds are
// before it. A shorter one does not exist.
constexpr uint64_t kHelloBytesMin = 64;
constexpr TimeUs kPatienceBegunUs = from_ms(30'000);

struct Unfinished {
  int descriptor = -1;
  std::string source;   // without the port
  std::string address;  // with it, as NNG writes it
  bool begun = false;   // it has sent enough for a ClientHello
};

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

unsigned port_of(const sockaddr_storage& address) {
  sockaddr_in v4;
  sockaddr_in6 v6;
  std::memcpy(&v4, &address, sizeof v4);
  std::memcpy(&v6, &address, sizeof v6);
  return address.ss_family == AF_INET    ? ntohs(v4.sin_port)
         : address.ss_family == AF_INET6 ? ntohs(v6.sin6_port)
                                         : 0;
}

std::string host_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  sockaddr_in v4;
  sockaddr_in6 v6;
  std::memcpy(&v4, &address, sizeof v4);
  std::memcpy(&v6, &address, sizeof v6);
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return text;
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return "[" + std::string(text) + "]";
}

// Where the system does not tell, as emulators do not, nobody has.
bool has_begun(int descriptor) {
  tcp_info about{};
  socklen_t bytes = sizeof about;
  return ::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &about, &bytes) == 0 &&
         bytes > offsetof(tcp_info, tcpi_bytes_received) &&
         about.tcpi_bytes_received >= kHelloBytesMin;
}

// Connections that came in on `port`.
std::vector<Unfinished> connections_to(unsigned port) {
  std::vector<Unfinished> found;
  const std::unique_ptr<DIR, CloseFolder> folder(::opendir("/proc/self/fd"));
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    const int descriptor = std::atoi(entry->d_name);
    sockaddr_storage local{}, remote{};
    socklen_t local_bytes = sizeof local, remote_bytes = sizeof remote;
    if (entry->d_name[0] == '.' ||
        ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&local), &local_bytes) != 0 ||
        port_of(local) != port ||
        ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&remote), &remote_bytes) != 0)
      continue;
    std::string source = host_of(remote);
    std::string address = source + ":" + std::to_string(port_of(remote));
    found.push_back({descriptor, std::move(source), std::move(address), has_begun(descriptor)});
  }
  return found;
}

}  // namespace

size_t HandshakeReaper::sweep(const std::set<std::string>& finished, TimeUs now) {
  std::map<std::string, TimeUs> seen;
  std::map<std::string, size_t> per_source;
  std::vector<Unfinished> unfinished = connections_to(port_);
  std::erase_if(unfinished, [&](const Unfinished& c) { return finished.contains(c.address); });
  for (const Unfinished& connection : unfinished) {
    const auto before = first_seen_.find(connection.address);
    seen[connection.address] = before == first_seen_.end() ? now : before->second;
    ++per_source[connection.source];
  }
  first_seen_ = std::move(seen);
  size_t count = 0;
  for (const Unfinished& connection : unfinished) {
    const bool crowded = per_source[connection.source] > kPerSourceMax;
    const TimeUs patience_us = connection.begun ? kPatienceBegunUs
                               : crowded        ? kPatienceCrowdedUs
                                                : kPatienceUs;
    if (now - first_seen_[connection.address] < patience_us) continue;
    // Should NNG have closed it meanwhile and the number stand for something else: no file minds,
    // and another connection is dialed again.
    ::shutdown(connection.descriptor, SHUT_RDWR);
    ++count;
  }
  return count;
}

}  // namespace paceline
