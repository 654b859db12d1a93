// What the two ends of the NNG transport share: start-up, log, errors, messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/bytes.h"
#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/net/transport.h"

struct nng_msg;

namespace paceline {

// NNG counts its request number as part of a message.
inline constexpr size_t kNngMessageBytesMax = kMessageBytesMax + sizeof(uint32_t);

// Starts the library with few threads and takes over its log. To be called before any other NNG
// function, and not before a fork; repeats do nothing.
void start_nng();

// kInvalidArgument unless it starts with "tcp://" or "ipc://" and has no TLS options, or with
// "tls+tcp://" and has them whole.
Status check_address(const std::string& address, const std::optional<TlsOptions>& tls, bool dials);

// What went wrong with `address`, as a Status with a fix where there is one.
Status nng_failure(int error, const std::string& address);

struct FreeNngMsg {
  void operator()(nng_msg* message) const;
};
using NngMsg = std::unique_ptr<nng_msg, FreeNngMsg>;

// Null if there is no memory.
NngMsg to_nng_msg(const Bytes& bytes);
Bytes to_bytes(const NngMsg& message);

struct DialFailure {
  std::string reason;  // "Connection refused"
  TimeUs at = 0;
};
// NNG tells why a dial failed only to its log. Between watch and forget, the newest failure of that
// socket is kept; with an empty reason at first.
void watch_dial_failures(uint32_t socket_id);
void forget_dial_failures(uint32_t socket_id);
DialFailure last_dial_failure(uint32_t socket_id);

// From now on connections that fail in their TLS handshake are told of in the log, within limits.
void report_refused_handshakes();

}  // namespace paceline
