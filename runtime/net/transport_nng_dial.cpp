// Worker's end over NNG: one REQ socket on one connection, one context for each lane.
//
// A lane takes a request through its phases one after another: held back by the emulated link,
// being sent, awaiting the reply, the reply held back. One operation runs at a time. Operations are
// begun and aborted under one mutex and end in their callback (see transport_nng_listen.cpp for
// why).
//
// Time-outs are kept here and not by NNG: its expiry of an operation that has just ended may hit
// the next one of the same aio.

#include <nng/nng.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/net/nng_library.h"
#include "runtime/net/nng_req_socket.h"
#include "runtime/net/token_bucket.h"
#include "runtime/net/transport.h"

namespace paceline {

namespace {

// So many time-outs in a row, in a connection that brings nothing: it may be half open.
constexpr uint32_t kTimeoutsSuspicious = 3;

// A long rest is taken in several: NNG counts milliseconds in 32 bits.
constexpr TimeUs kRestMaxMs = 60'000;

// How often it is made sure that the connection is still one.
constexpr TimeUs kProbeIntervalUs = from_ms(1000);

struct Outgoing {
  uint64_t request = 0;
  TimeUs sent_at = 0;
  TimeUs deadline = 0;
  size_t bytes = 0;
  NngMsg message;
};

class NngChannel;

struct Conversation {
  // Dropping: nobody waits for the operation that still runs.
  enum class Phase { kIdle, kHoldingUp, kSending, kAwaiting, kHoldingDown, kDropping };
  NngChannel* channel = nullptr;
  Lane lane = Lane::kExchange;
  nng_ctx ctx = NNG_CTX_INITIALIZER;
  nng_aio* aio = nullptr;
  nng_aio* timer = nullptr;
  nng_aio* running = nullptr;  // one of the two, unless idle
  Phase phase = Phase::kIdle;
  Outgoing current;
  std::optional<Outgoing> next;  // begins as soon as what is dropped has ended
  TimeUs held_until = 0;
  NngMsg held_reply;
};

class NngChannel final : public Channel {
 public:
  explicit NngChannel(const DialOptions& options)
      : socket_(options),
        silence_max_us_(from_ms(options.silence_timeout_ms)),
        up_(options.link.up_bits_per_s),
        down_(options.link.down_bits_per_s) {}
  ~NngChannel() override;
  NngChannel(const NngChannel&) = delete;
  NngChannel& operator=(const NngChannel&) = delete;

  // NNG's error.
  int open();

  uint64_t send(Lane lane, Bytes message, TimeUs timeout_us) override;
  bool receive(Reply* reply, TimeUs deadline) override;
  void wake() override;
  std::string state() const override { return socket_.state(); }
  uint64_t bytes_sent() const override;
  uint64_t bytes_received() const override;

 private:
  using Phase = Conversation::Phase;

  static void on_aio(void* conversation);
  void complete(Conversation& c);
  void advance(Conversation& c, int error, NngMsg message);
  void begin_next(Conversation& c);
  void transmit(Conversation& c);
  void sent(Conversation& c, int error);
  void answered(Conversation& c, int error, NngMsg message);
  bool hold(Conversation& c, Phase phase, TimeUs until);
  void start(Conversation& c, Phase phase, nng_aio* aio);
  void drop(Conversation& c);
  TimeUs end_overdue(TimeUs now);
  void finish(Conversation& c, Status status, Bytes message = {});
  void report(Lane lane, uint64_t request, Status status, Bytes message);
  void report_timeout(Lane lane, const Outgoing& outgoing);
  TimeUs pass(TokenBucket& bucket, const Conversation& c, size_t bytes) const;
  void forget(Conversation& c);
  bool is_dead(TimeUs now) const;

  ReqSocket socket_;
  const TimeUs silence_max_us_;

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
  TimeUs probe_at_ = 0;  // of the receiving thread
};

int NngChannel::open() {
  int error = socket_.open();
  if (error != 0) return error;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    Conversation& c = conversations_[lane];
    c.channel = this;
    c.lane = static_cast<Lane>(lane);
    if ((error = nng_ctx_open(&c.ctx, nng_socket{.id = socket_.id()})) != 0 ||
        (error = nng_aio_alloc(&c.aio, on_aio, &c)) != 0 ||
        (error = nng_aio_alloc(&c.timer, on_aio, &c)) != 0)
      return error;
    nng_aio_set_timeout(c.aio, NNG_DURATION_INFINITE);
    nng_aio_set_timeout(c.timer, NNG_DURATION_INFINITE);
  }
  return socket_.dial();
}

NngChannel::~NngChannel() {
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    while (operation_count_ > 0) {
      for (Conversation& c : conversations_)
        if (c.running) drop(c);
      changed_.wait_for(lock, std::chrono::seconds(1));
    }
  }
  // All callbacks have run. The order is: aios stopped, socket closed, memory freed.
  for (Conversation& c : conversations_) {
    nng_aio_stop(c.aio);
    nng_aio_stop(c.timer);
  }
  socket_.close();
  for (Conversation& c : conversations_) {
    nng_aio_free(c.aio);
    nng_aio_free(c.timer);
  }
}

uint64_t NngChannel::send(Lane lane, Bytes message, TimeUs timeout_us) {
  PACELINE_CHECK(message.size() <= kMessageBytesMax);
  NngMsg copy = to_nng_msg(message);
  PACELINE_CHECK(copy);
  const TimeUs now = monotonic_now_us();
  const std::lock_guard lock(mutex_);
  Conversation& c = conversations_[static_cast<size_t>(lane)];
  std::erase_if(replies_, [lane](const Reply& reply) { return reply.lane == lane; });
  const uint64_t request = ++request_count_;
  c.next = Outgoing{.request = request,
                    .sent_at = now,
                    .deadline = timeout_us < kNever - now ? now + timeout_us : kNever,
                    .bytes = message.size(),
                    .message = std::move(copy)};
  if (c.phase == Phase::kIdle)
    begin_next(c);
  else
    drop(c);
  changed_.notify_all();  // the earliest deadline may be another
  return request;
}

bool NngChannel::receive(Reply* reply, TimeUs deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const TimeUs now = monotonic_now_us();
    const TimeUs next_timeout = end_overdue(now);
    if (is_dead(now)) {
      timeouts_running_ = 0;
      lock.unlock();
      socket_.drop_connection();
      lock.lock();
    }
    if (now >= probe_at_) {
      probe_at_ = now + kProbeIntervalUs;
      lock.unlock();
      socket_.revive(now);
      lock.lock();
    }
    if (!replies_.empty()) break;
    if (std::exchange(woken_, false) || now >= deadline) return false;
    const TimeUs until = std::min({deadline, next_timeout, probe_at_});
    changed_.wait_for(lock, std::chrono::microseconds(until - now));
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

uint64_t NngChannel::bytes_sent() const {
  const std::lock_guard lock(mutex_);
  return bytes_sent_;
}

uint64_t NngChannel::bytes_received() const {
  const std::lock_guard lock(mutex_);
  return bytes_received_;
}

void NngChannel::on_aio(void* conversation) {
  auto& c = *static_cast<Conversation*>(conversation);
  c.channel->complete(c);
}

void NngChannel::complete(Conversation& c) {
  const std::lock_guard lock(mutex_);
  nng_aio* ended = std::exchange(c.running, nullptr);
  const int error = nng_aio_result(ended);
  NngMsg message(nng_aio_get_msg(ended));
  nng_aio_set_msg(ended, nullptr);
  --operation_count_;
  advance(c, error, std::move(message));
  changed_.notify_all();
}

// One operation of `c` has ended. A send that failed gives its message back, a receive may bring
// one.
void NngChannel::advance(Conversation& c, int error, NngMsg message) {
  switch (c.phase) {
    case Phase::kHoldingUp:
      if (hold(c, Phase::kHoldingUp, c.held_until)) return;
      return transmit(c);
    case Phase::kSending:
      return sent(c, error);
    case Phase::kAwaiting:
      return answered(c, error, std::move(message));
    case Phase::kHoldingDown:
      if (hold(c, Phase::kHoldingDown, c.held_until)) return;
      return finish(c, {}, to_bytes(c.held_reply));
    case Phase::kDropping:
      forget(c);
      c.phase = Phase::kIdle;
      if (c.next && !closing_) begin_next(c);
      return;
    case Phase::kIdle:
      break;
  }
  PACELINE_CHECK(c.phase != Phase::kIdle);
}

void NngChannel::begin_next(Conversation& c) {
  c.current = std::move(*c.next);
  c.next.reset();
  if (!hold(c, Phase::kHoldingUp, pass(up_, c, c.current.bytes))) transmit(c);
}

void NngChannel::transmit(Conversation& c) {
  start(c, Phase::kSending, c.aio);
  nng_aio_set_msg(c.aio, c.current.message.release());
  nng_ctx_send(c.ctx, c.aio);
}

void NngChannel::sent(Conversation& c, int error) {
  if (error != 0)
    return finish(c, Status(Code::kUnavailable,
                            format_text("%s: %s", socket_.address().c_str(), nng_strerror(error))));
  bytes_sent_ += c.current.bytes;
  start(c, Phase::kAwaiting, c.aio);
  nng_ctx_recv(c.ctx, c.aio);
}

void NngChannel::answered(Conversation& c, int error, NngMsg message) {
  if (error != 0)
    return finish(c, Status(Code::kUnavailable,
                            format_text("the connection to %s broke before the answer: %s",
                                        socket_.address().c_str(), nng_strerror(error))));
  const size_t bytes = nng_msg_len(message.get());
  bytes_received_ += bytes;
  timeouts_running_ = 0;
  c.held_reply = std::move(message);
  if (!hold(c, Phase::kHoldingDown, pass(down_, c, bytes))) finish(c, {}, to_bytes(c.held_reply));
}

// Bulk goes through the link in order; the small messages of the other lanes slip in between.
TimeUs NngChannel::pass(TokenBucket& bucket, const Conversation& c, size_t bytes) const {
  const TimeUs now = monotonic_now_us();
  return c.lane == Lane::kExchange ? bucket.take(bytes, now) : bucket.take_urgent(bytes, now);
}

// Lets the lane rest until then. False: there is nothing to wait for.
bool NngChannel::hold(Conversation& c, Phase phase, TimeUs until) {
  const TimeUs wait_us = until - monotonic_now_us();
  if (wait_us <= 0) return false;
  c.held_until = until;
  start(c, phase, c.timer);
  nng_sleep_aio(static_cast<nng_duration>(std::min<TimeUs>(wait_us / 1000 + 1, kRestMaxMs)),
                c.timer);
  return true;
}

// The bookkeeping of an operation that the caller begins.
void NngChannel::start(Conversation& c, Phase phase, nng_aio* aio) {
  c.phase = phase;
  c.running = aio;
  ++operation_count_;
}

void NngChannel::drop(Conversation& c) {
  c.phase = Phase::kDropping;
  nng_aio_abort(c.running, NNG_ECANCELED);
}

// Ends the requests whose time is over, and returns when the next one's will be.
TimeUs NngChannel::end_overdue(TimeUs now) {
  TimeUs next_timeout = kNever;
  for (Conversation& c : conversations_) {
    if (c.next && c.next->deadline <= now) {
      report_timeout(c.lane, *c.next);
      c.next.reset();
    }
    const bool open = c.phase != Phase::kIdle && c.phase != Phase::kDropping;
    if (open && c.current.deadline <= now) {
      report_timeout(c.lane, c.current);
      drop(c);
    } else if (open || c.next) {
      next_timeout = std::min(next_timeout, open ? c.current.deadline : c.next->deadline);
    }
  }
  return next_timeout;
}

void NngChannel::report_timeout(Lane lane, const Outgoing& outgoing) {
  if (timeouts_running_++ == 0) unanswered_since_ = outgoing.sent_at;
  report(
      lane, outgoing.request,
      Status(Code::kTimeout, format_text("no answer from %s in %.1f s", socket_.address().c_str(),
                                         to_seconds(outgoing.deadline - outgoing.sent_at))),
      {});
}

void NngChannel::report(Lane lane, uint64_t request, Status status, Bytes message) {
  replies_.push_back({.lane = lane,
                      .request = request,
                      .status = std::move(status),
                      .message = std::move(message)});
}

void NngChannel::finish(Conversation& c, Status status, Bytes message) {
  report(c.lane, c.current.request, std::move(status), std::move(message));
  forget(c);
  c.phase = Phase::kIdle;
}

void NngChannel::forget(Conversation& c) {
  c.current.message.reset();
  c.held_reply.reset();
}

// After a power cut of the other side, sends into the open connection go on succeeding.
bool NngChannel::is_dead(TimeUs now) const {
  return timeouts_running_ >= kTimeoutsSuspicious && now - unanswered_since_ > silence_max_us_;
}

}  // namespace

Result<std::unique_ptr<Channel>> dial_nng(const DialOptions& options) {
  PACELINE_TRY(check_address(options.address, options.tls, true));
  start_nng();
  auto channel = std::make_unique<NngChannel>(options);
  if (const int error = channel->open(); error != 0)
    return fail(nng_failure(error, options.address));
  return channel;
}

}  // namespace paceline
