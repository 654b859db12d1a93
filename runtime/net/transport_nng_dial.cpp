// Worker's end over NNG: one REQ socket on one connection, one context for each lane.
//
// A lane has one aio, which takes a request through its phases one after another: held back by the
// emulated link, being sent, awaiting the reply, the reply held back. Operations are started and
// aborted under one mutex and end in their callback (see transport_nng_listen.cpp for why).

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/net/nng_library.h"
#include "runtime/net/token_bucket.h"
#include "runtime/net/transport.h"

namespace paceline {

namespace {

// Pauses between dials grow from the least to the most; NNG adds jitter. On the same machine nobody
// is spared by waiting.
constexpr nng_duration kRedialMinMs = 500;
constexpr nng_duration kRedialMaxMs = 60'000;
constexpr nng_duration kRedialMinLocalMs = 100;
constexpr nng_duration kRedialMaxLocalMs = 1000;

// So many time-outs in a row, in a connection that brings nothing: it may be half open.
constexpr uint32_t kTimeoutsSuspicious = 3;

struct Outgoing {
  uint64_t request = 0;
  TimeUs timeout_us = 0;
  TimeUs deadline = 0;
  size_t bytes = 0;
  nng_msg* message = nullptr;
};

class NngChannel;

struct Conversation {
  enum class Phase { kIdle, kHoldingUp, kSending, kAwaiting, kHoldingDown };
  NngChannel* channel = nullptr;
  Lane lane = Lane::kExchange;
  nng_ctx ctx = NNG_CTX_INITIALIZER;
  nng_aio* aio = nullptr;
  Phase phase = Phase::kIdle;
  Outgoing current;
  std::optional<Outgoing> next;  // replaces `current` as soon as its operation has ended
  TimeUs held_until = 0;
  nng_msg* held_reply = nullptr;
};

bool is_local(const std::string& address) {
  return address.starts_with("ipc://") || address.starts_with("tcp://127.") ||
         address.starts_with("tcp://localhost:") || address.starts_with("tcp://[::1]:");
}

class NngChannel final : public Channel {
 public:
  explicit NngChannel(const DialOptions& options)
      : options_(options), up_(options.link.up_bits_per_s), down_(options.link.down_bits_per_s) {}
  ~NngChannel() override;
  NngChannel(const NngChannel&) = delete;
  NngChannel& operator=(const NngChannel&) = delete;

  // NNG's error.
  int open();

  uint64_t send(Lane lane, Bytes message, TimeUs timeout_us) override;
  bool receive(Reply* reply, TimeUs deadline) override;
  void wake() override;
  std::string state() const override;
  uint64_t bytes_sent() const override;
  uint64_t bytes_received() const override;

 private:
  using Phase = Conversation::Phase;

  static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void* self);
  static void on_aio(void* conversation);
  void complete(Conversation& c);
  void advance(Conversation& c, int error, nng_msg* message);
  void begin_next(Conversation& c);
  void transmit(Conversation& c);
  void sent(Conversation& c, int error);
  void answered(Conversation& c, int error, nng_msg* message);
  bool hold(Conversation& c, Phase phase, TimeUs until);
  void start(Conversation& c, Phase phase, TimeUs wait_us);
  void finish(Conversation& c, Status status, Bytes message = {});
  void finish_timeout(Conversation& c);
  TimeUs pass(TokenBucket& bucket, const Conversation& c, size_t bytes) const;
  void forget(Conversation& c);
  bool is_dead() const;
  void close_connection();

  const DialOptions options_;
  nng_socket socket_ = NNG_SOCKET_INITIALIZER;
  bool opened_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a reply, a wake or, while closing, an operation's end
  std::array<Conversation, kLaneCount> conversations_;
  std::deque<Reply> replies_;  // at most one of each lane
  TokenBucket up_;
  TokenBucket down_;
  uint64_t request_count_ = 0;
  uint64_t bytes_sent_ = 0;
  uint64_t bytes_received_ = 0;
  size_t operation_count_ = 0;     // begun with NNG and not called back
  uint32_t timeouts_running_ = 0;  // without an answer in between
  TimeUs unanswered_since_ = 0;    // the first of them was sent
  bool woken_ = false;
  bool closing_ = false;

  // The connection, as the pipe callbacks tell it. They hold NNG's locks, so nothing of NNG is
  // called while this mutex is held.
  mutable std::mutex connection_mutex_;
  uint32_t pipe_id_ = 0;  // 0: not connected
  bool greeted_ = false;  // the newest connection got past the greeting
  uint64_t connect_count_ = 0;
};

int NngChannel::open() {
  int error = nng_req0_open(&socket_);
  if (error != 0) return error;
  opened_ = true;
  watch_dial_failures(static_cast<uint32_t>(nng_socket_id(socket_)));
  const bool local = is_local(options_.address);
  if ((error = nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, kNngMessageBytesMax)) != 0 ||
      // No resend inside: a request that was handed over once is never sent by NNG again.
      (error = nng_socket_set_ms(socket_, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0 ||
      (error = nng_socket_set_ms(socket_, NNG_OPT_RECONNMINT,
                                 local ? kRedialMinLocalMs : kRedialMinMs)) != 0 ||
      (error = nng_socket_set_ms(socket_, NNG_OPT_RECONNMAXT,
                                 local ? kRedialMaxLocalMs : kRedialMaxMs)) != 0 ||
      (error = nng_pipe_notify(socket_, NNG_PIPE_EV_ADD_PRE, on_pipe, this)) != 0 ||
      (error = nng_pipe_notify(socket_, NNG_PIPE_EV_ADD_POST, on_pipe, this)) != 0 ||
      (error = nng_pipe_notify(socket_, NNG_PIPE_EV_REM_POST, on_pipe, this)) != 0)
    return error;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    Conversation& c = conversations_[lane];
    c.channel = this;
    c.lane = static_cast<Lane>(lane);
    if ((error = nng_ctx_open(&c.ctx, socket_)) != 0 ||
        (error = nng_aio_alloc(&c.aio, on_aio, &c)) != 0)
      return error;
  }

  nng_dialer dialer = NNG_DIALER_INITIALIZER;
  if ((error = nng_dialer_create(&dialer, socket_, options_.address.c_str())) != 0) return error;
  // Certificates and the server's name go here, between create and start.
  if (options_.address.starts_with("tcp://") &&
      (error = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true)) != 0)
    return error;
  return nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
}

NngChannel::~NngChannel() {
  if (!opened_) return;
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    while (operation_count_ > 0) {
      for (Conversation& c : conversations_)
        if (c.phase != Phase::kIdle) nng_aio_abort(c.aio, NNG_ECANCELED);
      changed_.wait_for(lock, std::chrono::seconds(1));
    }
  }
  // All callbacks have run. The order is: aios stopped, socket closed, memory freed.
  for (Conversation& c : conversations_) nng_aio_stop(c.aio);
  forget_dial_failures(static_cast<uint32_t>(nng_socket_id(socket_)));
  nng_close(socket_);
  for (Conversation& c : conversations_) {
    nng_aio_free(c.aio);
    forget(c);
    if (c.next) nng_msg_free(c.next->message);
  }
}

uint64_t NngChannel::send(Lane lane, Bytes message, TimeUs timeout_us) {
  PACELINE_CHECK(message.size() <= kMessageBytesMax);
  nng_msg* copy = make_nng_msg(message);
  PACELINE_CHECK(copy);
  const std::lock_guard lock(mutex_);
  Conversation& c = conversations_[static_cast<size_t>(lane)];
  std::erase_if(replies_, [lane](const Reply& reply) { return reply.lane == lane; });
  if (c.next) nng_msg_free(c.next->message);
  const uint64_t request = ++request_count_;
  c.next = Outgoing{.request = request,
                    .timeout_us = timeout_us,
                    .deadline = monotonic_now_us() + timeout_us,
                    .bytes = message.size(),
                    .message = copy};
  if (c.phase == Phase::kIdle)
    begin_next(c);
  else
    nng_aio_abort(c.aio, NNG_ECANCELED);
  return request;
}

bool NngChannel::receive(Reply* reply, TimeUs deadline) {
  std::unique_lock lock(mutex_);
  while (replies_.empty()) {
    const TimeUs now = monotonic_now_us();
    if (std::exchange(woken_, false) || now >= deadline) return false;
    if (deadline == kNever)
      changed_.wait(lock);
    else
      changed_.wait_for(lock, std::chrono::microseconds(deadline - now));
  }
  *reply = std::move(replies_.front());
  replies_.pop_front();
  return true;
}

void NngChannel::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

std::string NngChannel::state() const {
  const char* address = options_.address.c_str();
  {
    const std::lock_guard lock(connection_mutex_);
    if (pipe_id_ != 0 && greeted_)
      return format_text("connected to %s (connection %llu)", address,
                         static_cast<unsigned long long>(connect_count_));
    if (connect_count_ > 0 && !greeted_)
      return format_text("dialing %s: something answers that is not an edge_server", address);
  }
  const std::string failure = last_dial_failure(static_cast<uint32_t>(nng_socket_id(socket_)));
  return format_text("dialing %s: %s", address,
                     failure.empty() ? "no answer yet" : failure.c_str());
}

uint64_t NngChannel::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

uint64_t NngChannel::bytes_received() const {
  const std::lock_guard lock(mutex_);
  return bytes_received_;
}

void NngChannel::on_pipe(nng_pipe pipe, nng_pipe_ev event, void* self) {
  auto& channel = *static_cast<NngChannel*>(self);
  const auto pipe_id = static_cast<uint32_t>(nng_pipe_id(pipe));
  const std::lock_guard lock(channel.connection_mutex_);
  if (event == NNG_PIPE_EV_ADD_PRE) {
    channel.pipe_id_ = pipe_id;
    channel.greeted_ = false;
    ++channel.connect_count_;
  } else if (event == NNG_PIPE_EV_ADD_POST) {
    channel.greeted_ = true;
  } else if (channel.pipe_id_ == pipe_id) {
    channel.pipe_id_ = 0;
  }
}

void NngChannel::on_aio(void* conversation) {
  auto& c = *static_cast<Conversation*>(conversation);
  c.channel->complete(c);
}

void NngChannel::complete(Conversation& c) {
  bool dead = false;
  {
    const std::lock_guard lock(mutex_);
    const int error = nng_aio_result(c.aio);
    nng_msg* message = nng_aio_get_msg(c.aio);
    nng_aio_set_msg(c.aio, nullptr);
    --operation_count_;
    advance(c, error, message);
    dead = is_dead();
    if (dead) timeouts_running_ = 0;
    changed_.notify_all();
  }
  if (dead) close_connection();
}

// One operation of `c` has ended, with `error` or perhaps with a message.
void NngChannel::advance(Conversation& c, int error, nng_msg* message) {
  if (closing_ || c.next) {
    // Dropped or replaced. A send that failed gives its message back.
    if (message) nng_msg_free(message);
    forget(c);
    c.phase = Phase::kIdle;
    if (!closing_) begin_next(c);
    return;
  }
  PACELINE_CHECK(c.phase != Phase::kIdle);
  switch (c.phase) {
    case Phase::kHoldingUp:
      if (c.held_until < c.current.deadline) return transmit(c);
      return finish_timeout(c);
    case Phase::kSending:
      if (error != 0 && message) nng_msg_free(message);
      return sent(c, error);
    case Phase::kAwaiting:
      return answered(c, error, message);
    case Phase::kHoldingDown:
      if (c.held_until >= c.current.deadline) return finish_timeout(c);
      return finish(c, {}, take_nng_msg(std::exchange(c.held_reply, nullptr)));
    case Phase::kIdle:
      break;
  }
}

void NngChannel::begin_next(Conversation& c) {
  c.current = *std::exchange(c.next, std::nullopt);
  if (!hold(c, Phase::kHoldingUp, pass(up_, c, c.current.bytes))) transmit(c);
}

void NngChannel::transmit(Conversation& c) {
  nng_aio_set_msg(c.aio, std::exchange(c.current.message, nullptr));
  start(c, Phase::kSending, c.current.deadline - monotonic_now_us());
  nng_ctx_send(c.ctx, c.aio);
}

void NngChannel::sent(Conversation& c, int error) {
  if (error == NNG_ETIMEDOUT) return finish_timeout(c);
  if (error != 0)
    return finish(c, Status(Code::kUnavailable,
                            format_text("%s: %s", options_.address.c_str(), nng_strerror(error))));
  bytes_sent_ += c.current.bytes;
  start(c, Phase::kAwaiting, c.current.deadline - monotonic_now_us());
  nng_ctx_recv(c.ctx, c.aio);
}

void NngChannel::answered(Conversation& c, int error, nng_msg* message) {
  if (error == NNG_ETIMEDOUT) return finish_timeout(c);
  if (error != 0)
    return finish(c, Status(Code::kUnavailable,
                            format_text("the connection to %s broke before the answer: %s",
                                        options_.address.c_str(), nng_strerror(error))));
  const size_t bytes = nng_msg_len(message);
  bytes_received_ += bytes;
  timeouts_running_ = 0;
  if (bytes > kMessageBytesMax) {
    nng_msg_free(message);
    return finish(c, Status(Code::kCorrupt, format_text("%s: an answer of %zu bytes",
                                                        options_.address.c_str(), bytes)));
  }
  c.held_reply = message;
  if (hold(c, Phase::kHoldingDown, pass(down_, c, bytes))) return;
  finish(c, {}, take_nng_msg(std::exchange(c.held_reply, nullptr)));
}

// Bulk goes through the link in order; the small messages of the other lanes slip in between.
TimeUs NngChannel::pass(TokenBucket& bucket, const Conversation& c, size_t bytes) const {
  const TimeUs now = monotonic_now_us();
  return c.lane == Lane::kExchange ? bucket.take(bytes, now) : bucket.take_urgent(bytes, now);
}

// Lets the lane rest until then, or until its deadline. False: there is nothing to wait for.
bool NngChannel::hold(Conversation& c, Phase phase, TimeUs until) {
  const TimeUs wait_us = std::min(until, c.current.deadline) - monotonic_now_us();
  if (wait_us <= 0 && until < c.current.deadline) return false;
  c.held_until = until;
  start(c, phase, kNever);
  nng_sleep_aio(static_cast<nng_duration>((std::max<TimeUs>(wait_us, 1) + 999) / 1000), c.aio);
  return true;
}

// The bookkeeping before an operation; the caller begins it.
void NngChannel::start(Conversation& c, Phase phase, TimeUs wait_us) {
  c.phase = phase;
  ++operation_count_;
  constexpr TimeUs kWaitMaxUs = from_ms(INT32_MAX);
  // Zero would mean "don't wait" to NNG; a deadline that has passed still takes the common way.
  nng_aio_set_timeout(c.aio, wait_us > kWaitMaxUs
                                 ? NNG_DURATION_INFINITE
                                 : static_cast<nng_duration>(std::max<TimeUs>(1, wait_us / 1000)));
}

void NngChannel::finish_timeout(Conversation& c) {
  if (timeouts_running_++ == 0) unanswered_since_ = c.current.deadline - c.current.timeout_us;
  finish(c,
         Status(Code::kTimeout, format_text("no answer from %s in %.1f s", options_.address.c_str(),
                                            to_seconds(c.current.timeout_us))));
}

void NngChannel::finish(Conversation& c, Status status, Bytes message) {
  replies_.push_back({.lane = c.lane,
                      .request = c.current.request,
                      .status = std::move(status),
                      .message = std::move(message)});
  forget(c);
  c.phase = Phase::kIdle;
}

void NngChannel::forget(Conversation& c) {
  if (c.current.message) nng_msg_free(std::exchange(c.current.message, nullptr));
  if (c.held_reply) nng_msg_free(std::exchange(c.held_reply, nullptr));
}

// After a power cut of the other side, sends into the open connection go on succeeding.
bool NngChannel::is_dead() const {
  return timeouts_running_ >= kTimeoutsSuspicious &&
         monotonic_now_us() - unanswered_since_ > from_ms(options_.silence_timeout_ms);
}

void NngChannel::close_connection() {
  uint32_t pipe_id = 0;
  {
    const std::lock_guard lock(connection_mutex_);
    pipe_id = pipe_id_;
  }
  if (pipe_id == 0) return;
  log_debug("no answer from %s for too long: dialing again", options_.address.c_str());
  nng_pipe_close(nng_pipe{.id = pipe_id});
}

}  // namespace

Result<std::unique_ptr<Channel>> dial_nng(const DialOptions& options) {
  PACELINE_TRY(check_address(options.address));
  start_nng();
  auto channel = std::make_unique<NngChannel>(options);
  if (const int error = channel->open(); error != 0)
    return fail(nng_failure(error, options.address));
  return channel;
}

}  // namespace paceline
