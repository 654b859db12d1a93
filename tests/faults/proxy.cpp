#include "tests/faults/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/net/address.h"

namespace paceline::test {

namespace {

// What a flow holds beyond this stays with its sender, as on a link with small buffers.
constexpr size_t kHeldBytesMax = size_t{64} << 10;
constexpr size_t kReadBytesMax = size_t{16} << 10;
constexpr TimeUs kLongestPollUs = from_ms(1000);

Status system_failure(const char* what) {
  return Status(Code::kIo, format_text("%s: %s", what, std::strerror(errno)));
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

void make_lively(int socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  fcntl(socket, F_SETFL, O_NONBLOCK);
}

// To a port of this machine, where a connection is made or refused at once. -1: refused.
int dial(const std::string& target) {
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return -1;
  const sockaddr_in address = loopback(static_cast<uint16_t>(port_of("tcp://" + target)));
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(socket_);
    return -1;
  }
  make_lively(socket_);
  return socket_;
}

}  // namespace

// One direction of one connection.
struct Proxy::Flow {
  struct Piece {
    std::string bytes;
    TimeUs due = 0;
  };
  int from = -1, to = -1;
  std::deque<Piece> pieces;
  size_t held_bytes = 0;
  TimeUs link_free_at = 0;
  bool at_end = false;  // the sender has closed
  bool broken = false;

  bool takes() const { return !at_end && !broken && held_bytes < kHeldBytesMax; }
  bool is_over() const { return broken || (at_end && pieces.empty()); }
};

struct Proxy::Connection {
  int dialer = -1, target = -1;
  Flow up, down;

  Connection(int dialer_socket, int target_socket) : dialer(dialer_socket), target(target_socket) {
    up.from = down.to = dialer;
    up.to = down.from = target;
  }
  ~Connection() {
    close(dialer);
    if (target >= 0) close(target);
  }
  void lose_target() {
    if (target >= 0) close(target);
    target = up.to = down.from = -1;
    up.pieces.clear();
    up.held_bytes = 0;
  }
};

Result<std::unique_ptr<Proxy>> Proxy::start(const Options& options) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (listener < 0) return fail(system_failure("socket"));
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 64) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    const Status status = system_failure("listening on 127.0.0.1");
    close(listener);
    return fail(status);
  }
  const int waker = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  PACELINE_CHECK(waker >= 0);
  return std::unique_ptr<Proxy>(
      new Proxy(options, listener, waker, format_text("127.0.0.1:%u", ntohs(address.sin_port))));
}

Proxy::Proxy(const Options& options, int listener, int waker, std::string address)
    : address_(std::move(address)),
      listener_(listener),
      waker_(waker),
      target_(options.target),
      random_(options.seed, options.stream),
      thread_([this] { run(); }) {}

Proxy::~Proxy() {
  stopped_ = true;
  wake();
  thread_.join();
  connections_.clear();
  close(listener_);
  close(waker_);
}

void Proxy::wake() const { static_cast<void>(eventfd_write(waker_, 1)); }

void Proxy::set_target(const std::string& target) {
  const std::lock_guard lock(mutex_);
  target_ = target;
}

void Proxy::set_up(const LinkFaults& faults) {
  const std::lock_guard lock(mutex_);
  up_ = faults;
  wake();
}

void Proxy::set_down(const LinkFaults& faults) {
  const std::lock_guard lock(mutex_);
  down_ = faults;
  wake();
}

void Proxy::hold() {
  const std::lock_guard lock(mutex_);
  up_.held = down_.held = true;
  wake();
}

void Proxy::heal() {
  const std::lock_guard lock(mutex_);
  up_ = down_ = {};
  wake();
}

void Proxy::cut() {
  const std::lock_guard lock(mutex_);
  cut_ordered_ = true;
  wake();
}

void Proxy::half_open() {
  const std::lock_guard lock(mutex_);
  half_open_ordered_ = true;
  wake();
}

void Proxy::run() {
  while (!stopped_) {
    apply_orders();
    const TimeUs now = wait_for_sockets(monotonic_now_us());
    accept_one();
    {
      // When hold() has returned nothing passes any more.
      const std::lock_guard lock(mutex_);
      for (const std::unique_ptr<Connection>& connection : connections_)
        move_bytes(*connection, now);
    }
    // A half-open one stays until who dialed closes it.
    std::erase_if(connections_, [](const std::unique_ptr<Connection>& connection) {
      return connection->up.is_over() || connection->down.is_over();
    });
  }
}

void Proxy::apply_orders() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(cut_ordered_, false)) connections_.clear();
  if (std::exchange(half_open_ordered_, false))
    for (const std::unique_ptr<Connection>& connection : connections_) connection->lose_target();
}

// Until there is something to move, or to apply. Returns the time then.
TimeUs Proxy::wait_for_sockets(TimeUs now) {
  std::vector<pollfd> polls = {{listener_, POLLIN, 0}, {waker_, POLLIN, 0}};
  TimeUs until = now + kLongestPollUs;
  const auto watch = [&](const Flow& flow, const LinkFaults& faults) {
    if (flow.from >= 0 && flow.takes()) polls.push_back({flow.from, POLLIN, 0});
    if (flow.to < 0 || flow.pieces.empty() || faults.held) return;
    if (flow.pieces.front().due > now)
      until = std::min(until, flow.pieces.front().due);
    else
      polls.push_back({flow.to, POLLOUT, 0});
  };
  {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Connection>& connection : connections_) {
      watch(connection->up, up_);
      watch(connection->down, down_);
    }
  }
  poll(polls.data(), polls.size(), static_cast<int>((until - now) / 1000 + 1));
  eventfd_t ignored = 0;
  static_cast<void>(eventfd_read(waker_, &ignored));
  return monotonic_now_us();
}

void Proxy::accept_one() {
  const int dialer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (dialer < 0) return;
  make_lively(dialer);
  std::string target_name;
  {
    const std::lock_guard lock(mutex_);
    target_name = target_;
  }
  const int target = dial(target_name);
  if (target < 0)
    close(dialer);
  else
    connections_.push_back(std::make_unique<Connection>(dialer, target));
}

void Proxy::move_bytes(Connection& connection, TimeUs now) {
  for (auto [flow, faults] :
       {std::pair(&connection.up, &up_), std::pair(&connection.down, &down_)}) {
    if (flow->from >= 0 && flow->takes()) read_some(*flow, *faults, now);
    write_due(*flow, *faults, now);
  }
}

void Proxy::read_some(Flow& flow, const LinkFaults& faults, TimeUs now) {
  // On a thin link in pieces of a twentieth of a second, so that it flows.
  const size_t at_once = faults.bits_per_s > 0
                             ? static_cast<size_t>(std::clamp(faults.bits_per_s / 160, 64.0, 16e3))
                             : kReadBytesMax;
  std::string bytes(at_once, '\0');
  const ssize_t count = recv(flow.from, bytes.data(), bytes.size(), 0);
  if (count < 0) {
    flow.broken = errno != EAGAIN && errno != EINTR;
    return;
  }
  flow.at_end = count == 0;
  if (flow.at_end || flow.to < 0) return;
  bytes.resize(static_cast<size_t>(count));
  for (char& byte : bytes) {
    if (faults.garbled_share <= 0 || random_.unit() >= faults.garbled_share) continue;
    byte = static_cast<char>(byte ^ (1 << random_.below(8)));
    ++bytes_garbled_;
  }
  flow.link_free_at = std::max(flow.link_free_at, now);
  if (faults.bits_per_s > 0)
    flow.link_free_at +=
        static_cast<TimeUs>(static_cast<double>(bytes.size()) * 8e6 / faults.bits_per_s);
  flow.held_bytes += bytes.size();
  flow.pieces.push_back({std::move(bytes), flow.link_free_at + faults.delay_us});
}

void Proxy::write_due(Flow& flow, const LinkFaults& faults, TimeUs now) {
  while (flow.to >= 0 && !flow.broken && !faults.held && !flow.pieces.empty() &&
         flow.pieces.front().due <= now) {
    std::string& bytes = flow.pieces.front().bytes;
    const ssize_t count = send(flow.to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) {
      flow.broken = errno != EAGAIN && errno != EINTR;
      return;
    }
    bytes_passed_ += static_cast<uint64_t>(count);
    flow.held_bytes -= static_cast<size_t>(count);
    bytes.erase(0, static_cast<size_t>(count));
    if (bytes.empty()) flow.pieces.pop_front();
  }
}

}  // namespace paceline::test
