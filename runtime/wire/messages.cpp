#include "runtime/wire/messages.h"

#include <array>

#include "runtime/base/limits.h"
#include "runtime/wire/message_bounds.h"

namespace paceline {

namespace {

constexpr std::array kNames = {
    "Hello",    "Welcome",   "Push",           "Got",     "Ready",    "Close",
    "Exchange", "Granted",   "Refused",        "Missing", "Wait",     "Fetch",
    "Fetched",  "Heartbeat", "HeartbeatReply", "Enrol",   "Enrolled",
};
static_assert(kNames.size() == std::variant_size_v<Message>);

Status at_most(const char* field, uint64_t value, uint64_t value_max) {
  if (value <= value_max) return {};
  return fail(Code::kCorrupt, "%s is %llu, at most %llu is allowed", field,
              static_cast<unsigned long long>(value), static_cast<unsigned long long>(value_max));
}

// For strings, payloads and lists.
template <class T>
Status size_at_most(const char* field, const T& list, size_t size_max) {
  if (list.size() <= size_max) return {};
  return fail(Code::kCorrupt, "%s has %zu %s, at most %zu are allowed", field, list.size(),
              sizeof(list[0]) == 1 ? "bytes" : "entries", size_max);
}

Status check(const Directive& directive) {
  PACELINE_TRY(at_most("directive.tau", directive.tau, kTauMax));
  return size_at_most("directive.reason", directive.reason, kReasonBytesMax);
}

Status check(const Hello& hello) {
  PACELINE_TRY(size_at_most("Hello.name", hello.name, kNameBytesMax));
  return size_at_most("Hello.build", hello.build, kReasonBytesMax);
}

Status check(const Welcome& welcome) {
  PACELINE_TRY(at_most("Welcome.verdict", static_cast<uint8_t>(welcome.verdict),
                       static_cast<uint8_t>(Verdict::kRefused)));
  PACELINE_TRY(size_at_most("Welcome.run", welcome.run, kRunTextBytesMax));
  return check(welcome.directive);
}

Status check(const Push& push) {
  PACELINE_TRY(at_most("Push.chunk", push.chunk, kModelChunksMax - 1));
  PACELINE_TRY(at_most("Push.chunk_count", push.chunk_count, kModelChunksMax));
  return size_at_most("Push.payload", push.payload, kChunkBytesMax);
}

Status check(const Got& got) { return at_most("Got.chunk", got.chunk, kModelChunksMax - 1); }

Status check(const Exchange& exchange) {
  PACELINE_TRY(at_most("Exchange.chunk_count", exchange.chunk_count, kModelChunksMax));
  PACELINE_TRY(size_at_most("Exchange.statistics", exchange.statistics, kStatisticElementsMax));
  return size_at_most("Exchange.evaluations", exchange.evaluations, kEvaluationsPerExchangeMax);
}

Status check(const Granted& granted) { return check(granted.directive); }

Status check(const Refused& refused) {
  PACELINE_TRY(at_most("Refused.refusal", static_cast<uint8_t>(refused.refusal),
                       static_cast<uint8_t>(RefusalClass::kNotAllowed)));
  PACELINE_TRY(size_at_most("Refused.reason", refused.reason, kReasonBytesMax));
  return size_at_most("Refused.fix", refused.fix, kReasonBytesMax);
}

Status check(const Missing& missing) {
  PACELINE_TRY(size_at_most("Missing.chunks", missing.chunks, kModelChunksMax));
  for (const uint32_t chunk : missing.chunks)
    PACELINE_TRY(at_most("Missing.chunks", chunk, kModelChunksMax - 1));
  return {};
}

Status check(const Wait& wait) { return size_at_most("Wait.reason", wait.reason, kReasonBytesMax); }

Status check(const Fetch& fetch) {
  return at_most("Fetch.chunk", fetch.chunk, kModelChunksMax - 1);
}

Status check(const Fetched& fetched) {
  PACELINE_TRY(at_most("Fetched.chunk", fetched.chunk, kModelChunksMax - 1));
  PACELINE_TRY(at_most("Fetched.chunk_count", fetched.chunk_count, kModelChunksMax));
  PACELINE_TRY(size_at_most("Fetched.statistics", fetched.statistics, kStatisticElementsMax));
  return size_at_most("Fetched.payload", fetched.payload, kChunkBytesMax);
}

Status check(const Enrol& enrol) {
  PACELINE_TRY(size_at_most("Enrol.secret", enrol.secret, kSecretBytesMax));
  return size_at_most("Enrol.public_key", enrol.public_key, kPublicKeyBytesMax);
}

Status check(const Enrolled& enrolled) {
  PACELINE_TRY(size_at_most("Enrolled.authority", enrolled.authority, kCertificateBytesMax));
  PACELINE_TRY(size_at_most("Enrolled.certificate", enrolled.certificate, kCertificateBytesMax));
  PACELINE_TRY(size_at_most("Enrolled.name", enrolled.name, kNameBytesMax));
  return at_most("Enrolled.port", enrolled.port, UINT16_MAX);
}

// Numbers only, any value of which is well formed.
Status check(const Ready&) { return {}; }
Status check(const Close&) { return {}; }
Status check(const Heartbeat&) { return {}; }
Status check(const HeartbeatReply&) { return {}; }

}  // namespace

const char* message_name(const Message& message) { return kNames[message.index()]; }

Status within_bounds(const Message& message) {
  return std::visit([](const auto& body) { return check(body); }, message);
}

}  // namespace paceline
