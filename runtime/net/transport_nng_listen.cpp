// Server's end over NNG: one REP socket, one context for each request that may be parked.
//
// NNG 1.10.1 lacks the fix of its issue #2208: an abort between an operation's begin and its
// schedule is lost, and nng_aio_wait() may return before the callback ran. So operations are
// started and aborted under one mutex, and an operation has ended when its callback says so, never
// before.

#include <arpa/inet.h>
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/net/handshake_reaper.h"
#include "runtime/net/nng_library.h"
#include "runtime/net/nng_peers.h"
#include "runtime/net/nng_tls.h"
#include "runtime/net/transport.h"

namespace paceline {

namespace {

// Every session may have an exchange and a Ready parked; the rest serves heartbeats and newcomers.
constexpr uint32_t kContextsSpare = 8;

// Connections beyond one for each session: reconnects before the old one is seen to be gone.
constexpr size_t kConnectionsSpare = 64;

// Requests received but not yet taken by the owner. Each may have kMessageBytesMax; beyond it the
// senders wait in their TCP windows.
constexpr size_t kUntakenMax = 64;

// Answers that wait to be sent on one connection: a heartbeat each second behind the largest chunk
// at 64 kbit/s, and more than that. Who takes none is cut off before it holds all contexts.
constexpr size_t kRepliesWaitingMax = 256;

constexpr TimeUs kReapIntervalUs = from_ms(250);
constexpr TimeUs kSweepIntervalUs = from_ms(1000);

class RepSocket;

// One context: idle, waiting for a request, holding one that is not answered yet, or replying.
struct Context {
  enum class Phase { kIdle, kReceiving, kHolding, kReplying };
  RepSocket* socket = nullptr;
  nng_ctx ctx = NNG_CTX_INITIALIZER;
  nng_aio* aio = nullptr;
  Phase phase = Phase::kIdle;
  uint32_t pipe_id = 0;  // of the request that it holds or answers
};

std::string remote_address(nng_pipe pipe, bool secure) {
  nng_sockaddr remote;
  char text[NNG_MAXADDRSTRLEN];
  if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &remote) != 0) return "unknown";
  if (remote.s_family == NNG_AF_IPC) return "ipc://";
  return (secure ? "tls+tcp://" : "tcp://") +
         std::string(nng_str_sockaddr(&remote, text, sizeof text));
}

// "192.0.2.7:51234", empty if there is none.
std::string remote_port(nng_pipe pipe) {
  nng_sockaddr remote;
  char text[INET6_ADDRSTRLEN] = {};
  if (nng_pipe_get_addr(pipe, NNG_OPT_REMADDR, &remote) != 0) return {};
  if (remote.s_family == NNG_AF_INET) {
    inet_ntop(AF_INET, &remote.s_in.sa_addr, text, sizeof text);
    return std::string(text) + ":" + std::to_string(ntohs(remote.s_in.sa_port));
  }
  if (remote.s_family != NNG_AF_INET6) return {};
  inet_ntop(AF_INET6, remote.s_in6.sa_addr, text, sizeof text);
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(remote.s_in6.sa_port));
}

// The socket and its contexts. Shared by the listener and by the responders that were given out,
// which may live longer; after close() everything does nothing.
class RepSocket : public std::enable_shared_from_this<RepSocket> {
 public:
  explicit RepSocket(const ListenOptions& options)
      : secure_(options.tls.has_value()),
        knows_names_(secure_ && !options.tls->authority.empty()),
        peers_(options.sessions_max + kConnectionsSpare, from_ms(options.silence_timeout_ms)),
        contexts_max_(2 * std::min(options.sessions_max, kWorkersMax) + kContextsSpare) {}
  ~RepSocket() { close(); }
  RepSocket(const RepSocket&) = delete;
  RepSocket& operator=(const RepSocket&) = delete;

  Status open(const ListenOptions& options);
  void close();

  bool receive(Request* request, TimeUs deadline);
  void wake();
  void disconnect(const std::string& peer_key);
  const std::string& address() const { return address_; }

  // Ends what a responder holds: with a reply, or without one (null).
  void settle(Context& context, NngMsg reply);

 private:
  int open_socket(const ListenOptions& options);
  // NNG's error.
  int add_context();
  static void on_pipe(nng_pipe pipe, nng_pipe_ev event, void* self);
  static void on_aio(void* context);
  void complete(Context& context);
  void keep_one_receiving();
  void sweep_connections(TimeUs now);
  void close_silent_connections(TimeUs now);
  void close_dead_connections();
  bool make_request(Context& context, const NngMsg& message, Request* request);

  const bool secure_;
  const bool knows_names_;  // every peer has a certificate
  Peers peers_;
  std::string address_;
  nng_socket socket_ = NNG_SOCKET_INITIALIZER;
  bool opened_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;  // a request, a wake or, while closing, an operation's end
  const size_t contexts_max_;
  std::deque<Context> contexts_;  // as many as were needed at once so far; they do not move
  std::vector<Context*> idle_;
  std::deque<std::pair<Context*, NngMsg>> untaken_;
  std::map<uint32_t, size_t> replying_;  // contexts, by connection
  bool receiving_ = false;
  size_t operation_count_ = 0;  // begun with NNG and not called back
  bool woken_ = false;
  bool closing_ = false;
  // Of the receiving thread.
  TimeUs reap_at_ = 0;
  std::optional<HandshakeReaper> handshakes_;  // with TLS only
  TimeUs sweep_at_ = 0;
};

class NngResponder final : public Responder {
 public:
  NngResponder(std::shared_ptr<RepSocket> socket, Context* context)
      : socket_(std::move(socket)), context_(context) {}
  ~NngResponder() override {
    if (context_) socket_->settle(*context_, nullptr);
  }
  NngResponder(const NngResponder&) = delete;
  NngResponder& operator=(const NngResponder&) = delete;

  void reply(Bytes message) override {
    PACELINE_CHECK(context_);
    PACELINE_CHECK(message.size() <= kMessageBytesMax);
    socket_->settle(*std::exchange(context_, nullptr), to_nng_msg(message));
  }

 private:
  std::shared_ptr<RepSocket> socket_;
  Context* context_;
};

class NngListener final : public Listener {
 public:
  explicit NngListener(std::shared_ptr<RepSocket> socket) : socket_(std::move(socket)) {}
  ~NngListener() override { socket_->close(); }
  NngListener(const NngListener&) = delete;
  NngListener& operator=(const NngListener&) = delete;

  bool receive(Request* request, TimeUs deadline) override {
    return socket_->receive(request, deadline);
  }
  void wake() override { socket_->wake(); }
  void disconnect(const std::string& peer_key) override { socket_->disconnect(peer_key); }
  std::string address() const override { return socket_->address(); }

 private:
  std::shared_ptr<RepSocket> socket_;
};

int RepSocket::open_socket(const ListenOptions& options) {
  int error = nng_rep0_open(&socket_);
  if (error != 0) return error;
  opened_ = true;
  // Limits belong on the socket, before there is a listener: it copies them into its connections.
  if ((error = nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, kNngMessageBytesMax)) != 0 ||
      (error = nng_socket_set_int(socket_, NNG_OPT_MAXTTL, 1)) != 0 ||
      (error = nng_pipe_notify(socket_, NNG_PIPE_EV_ADD_PRE, on_pipe, this)) != 0 ||
      (error = nng_pipe_notify(socket_, NNG_PIPE_EV_REM_POST, on_pipe, this)) != 0)
    return error;
  if ((error = add_context()) != 0) return error;

  nng_listener listener = NNG_LISTENER_INITIALIZER;
  if ((error = nng_listener_create(&listener, socket_, options.address.c_str())) != 0) return error;
  if (options.tls) {
    report_refused_handshakes();
    if ((error = secure_listener(listener, *options.tls)) != 0) return error;
  }
  const bool tcp = !options.address.starts_with("ipc://");
  if (tcp && (error = nng_listener_set_bool(listener, NNG_OPT_TCP_KEEPALIVE, true)) != 0)
    return error;
  if ((error = nng_listener_start(listener, 0)) != 0) return error;

  address_ = options.address;
  int port = 0;
  if (tcp && nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port) == 0)
    address_ = options.address.substr(0, options.address.rfind(':') + 1) + std::to_string(port);
  if (secure_) handshakes_.emplace(static_cast<unsigned>(port));
  return 0;
}

int RepSocket::add_context() {
  Context context;
  context.socket = this;
  const int error = nng_ctx_open(&context.ctx, socket_);
  if (error != 0) return error;
  contexts_.push_back(context);
  Context& added = contexts_.back();
  if (const int no_aio = nng_aio_alloc(&added.aio, on_aio, &added); no_aio != 0) {
    nng_ctx_close(added.ctx);
    contexts_.pop_back();
    return no_aio;
  }
  nng_aio_set_timeout(added.aio, NNG_DURATION_INFINITE);
  idle_.push_back(&added);
  return 0;
}

Status RepSocket::open(const ListenOptions& options) {
  if (const int error = open_socket(options); error != 0)
    return nng_failure(error, options.address);
  const std::lock_guard lock(mutex_);
  keep_one_receiving();
  return {};
}

void RepSocket::close() {
  {
    std::unique_lock lock(mutex_);
    if (!opened_ || closing_) return;
    closing_ = true;
    untaken_.clear();
    changed_.notify_all();
    while (operation_count_ > 0) {
      for (Context& context : contexts_)
        if (context.phase == Context::Phase::kReceiving ||
            context.phase == Context::Phase::kReplying)
          nng_aio_abort(context.aio, NNG_ECANCELED);
      changed_.wait_for(lock, std::chrono::seconds(1));
    }
  }
  // All callbacks have run. The order is: aios stopped, socket closed, memory freed.
  for (Context& context : contexts_) nng_aio_stop(context.aio);
  nng_close(socket_);
  for (Context& context : contexts_) nng_aio_free(context.aio);
}

void RepSocket::on_pipe(nng_pipe pipe, nng_pipe_ev event, void* self) {
  const bool secure = static_cast<RepSocket*>(self)->secure_;
  Peers& peers = static_cast<RepSocket*>(self)->peers_;
  if (event == NNG_PIPE_EV_REM_POST) {
    peers.remove(static_cast<uint32_t>(nng_pipe_id(pipe)));
  } else if (!peers.add(static_cast<uint32_t>(nng_pipe_id(pipe)),
                        secure ? remote_port(pipe) : std::string())) {
    log_debug("connection refused: too many");
    nng_pipe_close(pipe);
  }
}

void RepSocket::on_aio(void* context) {
  auto& self = *static_cast<Context*>(context);
  self.socket->complete(self);
}

void RepSocket::complete(Context& context) {
  const std::lock_guard lock(mutex_);
  const bool ok = nng_aio_result(context.aio) == 0;
  // A receive may have brought one; a send that failed gives its own back.
  NngMsg message(nng_aio_get_msg(context.aio));
  nng_aio_set_msg(context.aio, nullptr);
  --operation_count_;
  if (context.phase == Context::Phase::kReceiving) receiving_ = false;
  if (context.phase == Context::Phase::kReplying && --replying_[context.pipe_id] == 0)
    replying_.erase(context.pipe_id);
  if (context.phase == Context::Phase::kReceiving && ok && !closing_ &&
      nng_msg_len(message.get()) <= kMessageBytesMax) {
    context.phase = Context::Phase::kHolding;
    untaken_.emplace_back(&context, std::move(message));
  } else {
    context.phase = Context::Phase::kIdle;
    idle_.push_back(&context);
  }
  keep_one_receiving();
  changed_.notify_all();
}

// One receiving context is enough: its callback puts the next in place before it returns.
void RepSocket::keep_one_receiving() {
  if (closing_ || receiving_ || untaken_.size() >= kUntakenMax) return;
  if (idle_.empty() && (contexts_.size() >= contexts_max_ || add_context() != 0)) return;
  Context& context = *idle_.back();
  idle_.pop_back();
  context.phase = Context::Phase::kReceiving;
  receiving_ = true;
  ++operation_count_;
  // A context that receives again forgets the request that it had not answered.
  nng_ctx_recv(context.ctx, context.aio);
}

void RepSocket::settle(Context& context, NngMsg reply) {
  uint32_t deaf_pipe_id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (closing_) return;
    PACELINE_CHECK(context.phase == Context::Phase::kHolding);
    if (!reply) {
      context.phase = Context::Phase::kIdle;
      idle_.push_back(&context);
      keep_one_receiving();
      return;
    }
    context.phase = Context::Phase::kReplying;
    ++operation_count_;
    if (++replying_[context.pipe_id] > std::min(kRepliesWaitingMax, contexts_max_ / 2))
      deaf_pipe_id = context.pipe_id;
    nng_aio_set_msg(context.aio, reply.release());
    // Waits for its connection at most until that is closed, for silence if for nothing else.
    nng_ctx_send(context.ctx, context.aio);
  }
  if (deaf_pipe_id == 0) return;
  log_debug("connection closed: it takes no answers");
  nng_pipe_close(nng_pipe{.id = deaf_pipe_id});
}

bool RepSocket::receive(Request* request, TimeUs deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    const TimeUs now = monotonic_now_us();
    if (now >= reap_at_) {
      reap_at_ = now + kReapIntervalUs;
      lock.unlock();
      sweep_connections(now);
      lock.lock();
    }
    if (!untaken_.empty()) break;
    if (std::exchange(woken_, false) || now >= deadline) return false;
    changed_.wait_for(lock, std::chrono::microseconds(std::min(deadline, reap_at_) - now));
  }
  const auto [context, message] = std::move(untaken_.front());
  untaken_.pop_front();
  keep_one_receiving();
  lock.unlock();
  if (make_request(*context, message, request)) return true;
  // The connection went before anybody asked who it was: nothing of it is believed.
  settle(*context, nullptr);
  return false;
}

void RepSocket::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

bool RepSocket::make_request(Context& context, const NngMsg& message, Request* request) {
  const nng_pipe pipe = nng_msg_get_pipe(message.get());
  const auto pipe_id = static_cast<uint32_t>(nng_pipe_id(pipe));
  context.pipe_id = pipe_id;
  PeerFacts facts = peers_.heard(pipe_id);
  if (facts.address.empty()) {
    facts.address = remote_address(pipe, secure_);
    if (knows_names_) facts.tls = tls_peer(pipe);
    if (knows_names_ && facts.tls.name.empty()) return false;
    peers_.set_facts(pipe_id, facts);
  }
  request->peer_address = std::move(facts.address);
  request->peer_identity = std::move(facts.tls.name);
  request->peer_key = std::move(facts.tls.key);
  request->message = to_bytes(message);
  request->responder = std::make_unique<NngResponder>(shared_from_this(), &context);
  return true;
}

void RepSocket::disconnect(const std::string& peer_key) {
  for (const uint32_t pipe_id : peers_.of_key(peer_key)) nng_pipe_close(nng_pipe{.id = pipe_id});
}

void RepSocket::sweep_connections(TimeUs now) {
  close_silent_connections(now);
  if (!secure_ || now < sweep_at_) return;
  sweep_at_ = now + kSweepIntervalUs;
  close_dead_connections();
  if (const size_t count = handshakes_->sweep(peers_.remotes(), now); count > 0)
    log_debug("%zu connections ended: no handshake in time", count);
}

void RepSocket::close_silent_connections(TimeUs now) {
  for (const uint32_t pipe_id : peers_.silent(now)) {
    log_debug("connection closed: nothing heard for too long");
    nng_pipe_close(nng_pipe{.id = pipe_id});
  }
}

void RepSocket::close_dead_connections() {
  for (const uint32_t pipe_id : peers_.pipe_ids()) {
    if (!is_over(nng_pipe{.id = pipe_id})) continue;
    log_debug("connection closed: it was over");
    nng_pipe_close(nng_pipe{.id = pipe_id});
  }
}

}  // namespace

Result<std::unique_ptr<Listener>> listen_nng(const ListenOptions& options) {
  PACELINE_TRY(check_address(options.address, options.tls, false));
  start_nng();
  auto socket = std::make_shared<RepSocket>(options);
  PACELINE_TRY(socket->open(options));
  return std::make_unique<NngListener>(std::move(socket));
}

}  // namespace paceline
