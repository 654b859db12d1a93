#include "runtime/net/nng_req_socket.h"

#include <nng/nng.h>
#include <nng/protocol/reqrep0/req.h>

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/net/address.h"
#include "runtime/net/nng_library.h"
#include "runtime/net/nng_tls.h"

namespace paceline {

namespace {

// Pauses between dials grow from the least to the most; NNG adds jitter. On the same machine nobody
// is spared by waiting.
constexpr nng_duration kRedialMinMs = 500;
constexpr nng_duration kRedialMaxMs = 60'000;
constexpr nng_duration kRedialMinLocalMs = 100;
constexpr nng_duration kRedialMaxLocalMs = 1000;

void on_pipe(nng_pipe pipe, nng_pipe_ev event, void* self) {
  using Event = ReqSocket::Event;
  static_cast<ReqSocket*>(self)->note(static_cast<uint32_t>(nng_pipe_id(pipe)),
                                      event == NNG_PIPE_EV_ADD_PRE    ? Event::kConnected
                                      : event == NNG_PIPE_EV_ADD_POST ? Event::kGreeted
                                                                      : Event::kGone);
}

}  // namespace

int ReqSocket::open() {
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  int error = nng_req0_open(&socket);
  if (error != 0) return error;
  opened_ = true;
  socket_id_ = socket.id;
  watch_dial_failures(socket_id_);
  const bool local = is_local_address(address_);
  // No resend inside: a request that was handed over once is never sent by NNG again.
  if ((error = nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE)) != 0 ||
      (error = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, kNngMessageBytesMax)) != 0 ||
      (error = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT,
                                 local ? kRedialMinLocalMs : kRedialMinMs)) != 0 ||
      (error = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT,
                                 local ? kRedialMaxLocalMs : kRedialMaxMs)) != 0)
    return error;
  for (const nng_pipe_ev event : {NNG_PIPE_EV_ADD_PRE, NNG_PIPE_EV_ADD_POST, NNG_PIPE_EV_REM_POST})
    if ((error = nng_pipe_notify(socket, event, on_pipe, this)) != 0) return error;
  return 0;
}

int ReqSocket::dial() {
  {
    const std::lock_guard lock(mutex_);
    news_at_ = monotonic_now_us();
  }
  nng_dialer dialer = NNG_DIALER_INITIALIZER;
  int error = nng_dialer_create(&dialer, nng_socket{.id = socket_id_}, address_.c_str());
  if (error != 0) return error;
  dialer_id_ = dialer.id;
  if (tls_ && (error = secure_dialer(dialer, *tls_)) != 0) return error;
  if (!address_.starts_with("ipc://") &&
      (error = nng_dialer_set_bool(dialer, NNG_OPT_TCP_KEEPALIVE, true)) != 0)
    return error;
  return nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);
}

void ReqSocket::close() {
  if (!opened_) return;
  opened_ = false;
  forget_dial_failures(socket_id_);
  // Waits for the pipe callbacks.
  nng_close(nng_socket{.id = socket_id_});
}

void ReqSocket::note(uint32_t pipe_id, Event event) {
  if (tls_) trace_handshakes(event != Event::kGreeted);
  const std::lock_guard lock(mutex_);
  news_at_ = monotonic_now_us();
  switch (event) {
    case Event::kConnected:
      pipe_id_ = pipe_id;
      greeted_ = false;
      ++connect_count_;
      break;
    case Event::kGreeted:
      greeted_ = true;
      break;
    case Event::kGone:
      if (pipe_id_ == pipe_id) pipe_id_ = 0;
      break;
  }
}

void ReqSocket::drop_connection() {
  uint32_t pipe_id = 0;
  {
    const std::lock_guard lock(mutex_);
    pipe_id = pipe_id_;
  }
  if (pipe_id == 0) return;
  log_debug("no answer from %s for too long: dialing again", address_.c_str());
  nng_pipe_close(nng_pipe{.id = pipe_id});
}

void ReqSocket::revive(TimeUs now) {
  if (!tls_) return;
  uint32_t pipe_id = 0;
  TimeUs news_at = 0;
  {
    const std::lock_guard lock(mutex_);
    pipe_id = pipe_id_;
    news_at = news_at_;
  }
  if (pipe_id != 0) return drop_dead_connection(pipe_id);
  news_at = std::max(news_at, last_dial_failure(socket_id_).at);
  if (now - news_at > dial_timeout_us_) dial_afresh();
}

void ReqSocket::drop_dead_connection(uint32_t pipe_id) {
  const nng_pipe pipe{.id = pipe_id};
  if (!is_over(pipe)) return;
  log_debug("the connection to %s was over: dialing again", address_.c_str());
  nng_pipe_close(pipe);
}

void ReqSocket::dial_afresh() {
  log_debug("nothing heard of a dial to %s: dialing afresh", address_.c_str());
  nng_dialer_close(nng_dialer{.id = dialer_id_});
  if (const int error = dial(); error != 0)
    log_warning("%s can't be dialed: %s", address_.c_str(), nng_strerror(error));
}

std::string ReqSocket::state() const {
  {
    const std::lock_guard lock(mutex_);
    if (pipe_id_ != 0 && greeted_)
      return format_text("connected to %s (connection %llu)", address_.c_str(),
                         static_cast<unsigned long long>(connect_count_));
    if (connect_count_ > 0 && !greeted_)
      return format_text("dialing %s: something answers that is not an edge_server",
                         address_.c_str());
  }
  const std::string failure = last_dial_failure(socket_id_).reason;
  return format_text("dialing %s: %s", address_.c_str(),
                     failure.empty() ? "no answer yet" : failure.c_str());
}

}  // namespace paceline
