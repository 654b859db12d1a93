#include "runtime/net/nng_library.h"

#include <nng/nng.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/log_limit.h"
#include "runtime/net/nng_tls.h"

namespace paceline {

namespace {

std::mutex failures_mutex;
// By socket. Never destroyed: NNG's threads outlive main().
auto& failures = *new std::map<uint32_t, DialFailure>;
// What TLS said last, until a dial that failed takes it.
auto& tls_reason = *new std::string;

std::atomic<bool> reports_handshakes = false;
auto& handshake_lines = *new LogLimit;

// mbedTLS tells its reasons to its trace only: line after line before the handshake ends, on the
// thread that runs it. They are picked out and the rest, which may be about keys, is dropped.
void note_tls_trace(const char* text) {
  std::string reason = tls_trace_reason(text);
  if (reason.empty()) return;
  const std::lock_guard lock(failures_mutex);
  tls_reason = std::move(reason);
}

void note_handshake_failure(const char* text) {
  std::string reason = tls_trace_reason(text);
  const std::lock_guard lock(failures_mutex);
  if (!reason.empty() || tls_reason.empty()) tls_reason = reason.empty() ? text : std::move(reason);
  if (!reports_handshakes) return;
  if (const std::optional<std::string> more = handshake_lines.pass(monotonic_now_us()))
    log_warning("a connection was refused: %s%s", tls_reason.c_str(), more->c_str());
  tls_reason.clear();
}

// "Failed connecting socket<7> to tcp://host:1: Connection refused"
void note_dial_failure(const char* text) {
  unsigned socket_id = 0;
  if (std::sscanf(text, "Failed connecting socket<%u>", &socket_id) != 1) return;
  const char* reason = std::strrchr(text, ':');
  const std::lock_guard lock(failures_mutex);
  const auto entry = failures.find(socket_id);
  if (entry == failures.end() || reason == nullptr || reason[1] != ' ') return;
  entry->second = {.reason = reason + 2, .at = monotonic_now_us()};
  if (std::strstr(text, "tls+tcp://") != nullptr && !tls_reason.empty())
    entry->second.reason = std::exchange(tls_reason, {});
  // What NNG makes of a name that no resolver knows.
  if (entry->second.reason == nng_strerror(NNG_EADDRINVAL))
    entry->second.reason =
        "no machine of this name is known here; check it, or give a number: 192.0.2.7";
}

// Peers cause most of these lines, as often as they like: they are for debugging only.
void write_log(nng_log_level, nng_log_facility, const char* id, const char* text) {
  if (std::strcmp(id, "MBED") == 0) return note_tls_trace(text);
  if (std::strcmp(id, "NNG-CONN-FAIL") == 0) note_dial_failure(text);
  if (std::strcmp(id, "NNG-TLS-HANDSHAKE") == 0) note_handshake_failure(text);
  log_debug("nng: %s: %s", id, text);
}

}  // namespace

void start_nng() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The default is more than a dozen threads on two cores. Callbacks here are short; two task
    // threads are NNG's own minimum against deadlock.
    nng_init_set_parameter(NNG_INIT_NUM_TASK_THREADS, 2);
    nng_init_set_parameter(NNG_INIT_NUM_EXPIRE_THREADS, 1);
    nng_init_set_parameter(NNG_INIT_NUM_POLLER_THREADS, 1);
    nng_init_set_parameter(NNG_INIT_NUM_RESOLVER_THREADS, 1);
    nng_log_set_level(NNG_LOG_DEBUG);  // reasons of failures are told at this level
    nng_log_set_logger(write_log);
  });
}

Status check_address(const std::string& address, const std::optional<TlsOptions>& tls, bool dials) {
  const bool secure = address.starts_with("tls+tcp://");
  if (!secure && !address.starts_with("tcp://") && !address.starts_with("ipc://"))
    return fail(Code::kInvalidArgument,
                "address \"%s\": write tcp://HOST:PORT, tls+tcp://HOST:PORT, or ipc:///PATH on one "
                "machine",
                address.c_str());
  if (secure != tls.has_value())
    return fail(Code::kInvalidArgument, "address \"%s\": certificates go with tls+tcp:// only",
                address.c_str());
  if (!secure) return {};
  const bool whole = tls->certificate.empty() ? dials && tls->key.empty() : !tls->key.empty();
  if (!whole || (dials && tls->authority.empty() != tls->server_name.empty()))
    return fail(Code::kInvalidArgument, "address \"%s\": a certificate, key or name is missing",
                address.c_str());
  return {};
}

Status nng_failure(int error, const std::string& address) {
  switch (error) {
    case NNG_EADDRINVAL:
    case NNG_EINVAL:
      return fail(Code::kInvalidArgument, "address \"%s\" has no meaning here: %s; check it",
                  address.c_str(), nng_strerror(error));
    case NNG_EADDRINUSE:
      return fail(Code::kIo, "%s is in use: stop what listens there or choose another",
                  address.c_str());
    case NNG_EPERM:
      return fail(Code::kIo,
                  "%s is not permitted: ports below 1024 and foreign folders need rights",
                  address.c_str());
    case NNG_ENOMEM:
    case NNG_ENOFILES:
      return fail(Code::kResourceExhausted, "%s: %s; raise the limit or lower sessions_max",
                  address.c_str(), nng_strerror(error));
    default:
      return fail(Code::kIo, "%s: %s", address.c_str(), nng_strerror(error));
  }
}

void FreeNngMsg::operator()(nng_msg* message) const { nng_msg_free(message); }

NngMsg to_nng_msg(const Bytes& bytes) {
  nng_msg* message = nullptr;
  if (nng_msg_alloc(&message, bytes.size()) != 0) return nullptr;
  if (!bytes.empty()) std::memcpy(nng_msg_body(message), bytes.data(), bytes.size());
  return NngMsg(message);
}

Bytes to_bytes(const NngMsg& message) {
  const auto* body = static_cast<const std::byte*>(nng_msg_body(message.get()));
  return Bytes(body, body + nng_msg_len(message.get()));
}

void report_refused_handshakes() { reports_handshakes = true; }

void watch_dial_failures(uint32_t socket_id) {
  const std::lock_guard lock(failures_mutex);
  failures[socket_id];
}

void forget_dial_failures(uint32_t socket_id) {
  const std::lock_guard lock(failures_mutex);
  failures.erase(socket_id);
}

DialFailure last_dial_failure(uint32_t socket_id) {
  const std::lock_guard lock(failures_mutex);
  const auto entry = failures.find(socket_id);
  return entry == failures.end() ? DialFailure() : entry->second;
}

}  // namespace paceline
