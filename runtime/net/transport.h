// Requests and replies between workers and a server, whatever carries them.
//
// A worker dials out and asks; the server answers each request once, now or later (it parks the
// reply). Messages are opaque bytes of at most kMessageBytesMax. A transport gives no promise of
// delivery: a request may be lost, delivered twice or late, its reply may be lost; time-outs,
// retries and idempotency are the cores' business. There is no resend inside a transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace paceline {

// The independent conversations of one worker: at most one request of each kind is in flight, and a
// slow or parked one never holds up another.
enum class Lane : uint8_t { kExchange, kReady, kHeartbeat };
inline constexpr size_t kLaneCount = 3;

// Answers one request. Call reply() at most once; dropping the object drops the request.
// May be kept and used on any thread, also after the listener has stopped (then it does nothing).
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void reply(Bytes message) = 0;
};

struct Request {
  Bytes message;
  // Who sent it, as the transport itself knows: the name in its certificate under TLS, else empty.
  std::string peer_identity;
  // With it: the key that the certificate is pinned to (runtime/trust/certificate.h), else empty.
  std::string peer_key;
  // "tcp://192.0.2.7:51234", for messages to people only.
  std::string peer_address;
  std::unique_ptr<Responder> responder;
};

// Server's end. Delivers requests to a queue that the owner drains from one thread.
class Listener {
 public:
  virtual ~Listener() = default;
  // Waits until a request is there, `deadline` passes or wake() is called. False: nothing came.
  virtual bool receive(Request* request, TimeUs deadline) = 0;
  // Makes a receive() that waits return. Safe from any thread and from a signal handler's thread.
  virtual void wake() = 0;
  // Closes the connections of whoever has this key; it may dial again. By key and not by name: a
  // board that was replaced must not take its successor's connection along.
  virtual void disconnect(const std::string& peer_key) = 0;
  // Where it really listens, with the port that was chosen for port 0: "tcp://127.0.0.1:40123".
  virtual std::string address() const = 0;
};

// How a request of a worker ended.
struct Reply {
  Lane lane = Lane::kExchange;
  uint64_t request = 0;  // the number that send() gave
  Status status;         // kTimeout, kUnavailable: what happened to the request is unknown
  Bytes message;         // if ok
};

// Worker's end. Dials in the background for ever, with growing pauses and jitter.
class Channel {
 public:
  virtual ~Channel() = default;
  // Sends `message` on `lane` and drops an unanswered earlier one of that lane (its reply never
  // comes). Returns the request's number, rising from 1. Exactly one Reply follows, unless it is
  // dropped.
  virtual uint64_t send(Lane lane, Bytes message, TimeUs timeout_us) = 0;
  virtual bool receive(Reply* reply, TimeUs deadline) = 0;
  virtual void wake() = 0;
  // For people: "connected to tcp://...", or why not yet ("no route", "refused", "wrong protocol").
  virtual std::string state() const = 0;
  // Bytes of messages that went out and came in since the start.
  virtual uint64_t bytes_sent() const = 0;
  virtual uint64_t bytes_received() const = 0;
};

struct LinkLimit {
  // Bits per second in each direction; 0 = no limit. Emulates a thin link on a real connection.
  double up_bits_per_s = 0;
  double down_bits_per_s = 0;
};
// "100mbit", "1mbit", "64kbit", "10mbit/1mbit" (down/up). Errors: kInvalidArgument with examples.
Result<LinkLimit> parse_link(const std::string& text);

// A connection that brings no message for so long is taken for dead and closed; a living worker
// dials again by itself. Long enough for the largest message at 64 kbit/s.
inline constexpr uint32_t kSilenceTimeoutMs = 150'000;

// A dial under TLS that neither succeeds nor fails for so long is begun anew. Longer than the
// longest pause between dials and a handshake with a server that has all its fleet to greet.
inline constexpr uint32_t kDialTimeoutMs = 90'000;

// Who this end is under "tls+tcp://" and whom it believes: PEM texts. TLS 1.3 only. The key is
// never logged.
struct TlsOptions {
  std::string certificate;  // of this end; a dialer may have none
  std::string key;          // of `certificate`
  // Whose certificates are believed. Empty: anybody's; a listener then asks for none. For enrolment
  // only.
  std::string authority;
  // The dialer's: what the server's certificate has to name. Never empty with an authority.
  std::string server_name;
};

struct ListenOptions {
  std::string address;          // "tcp://0.0.0.0:7433", "tls+tcp://...", "ipc:///run/paceline.sock"
  uint32_t sessions_max = 256;  // contexts = 2 x this + 8, bounded
  uint32_t silence_timeout_ms = kSilenceTimeoutMs;  // then the connection is closed
  std::optional<TlsOptions> tls = std::nullopt;     // with "tls+tcp://", and only then
};
struct DialOptions {
  std::string address;
  LinkLimit link;
  uint64_t jitter_seed = 0;                         // of pauses between dials; NNG draws its own
  uint32_t silence_timeout_ms = kSilenceTimeoutMs;  // with requests unanswered; then it dials again
  uint32_t dial_timeout_ms = kDialTimeoutMs;
  std::optional<TlsOptions> tls = std::nullopt;  // with "tls+tcp://", and only then
};

// Errors: kInvalidArgument for an address or certificate that can't be, kIo with the system's
// reason and a fix.
Result<std::unique_ptr<Listener>> listen_nng(const ListenOptions& options);
Result<std::unique_ptr<Channel>> dial_nng(const DialOptions& options);

}  // namespace paceline
