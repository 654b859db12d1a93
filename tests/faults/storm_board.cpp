#include "tests/faults/storm_board.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace paceline::test {

namespace {
constexpr TimeUs kPatienceUs = from_ms(5'000);
constexpr TimeUs kMomentUs = 100;
constexpr TimeUs kAgainUs = from_ms(100);
constexpr TimeUs kHeartbeatUs = from_ms(1'000);
constexpr uint64_t kIncarnation = 1;
}  // namespace

Result<StormBoard> StormBoard::dial(const std::string& name, const std::string& address,
                                    const std::optional<TlsOptions>& tls) {
  StormBoard board(name);
  PACELINE_ASSIGN(board.channel_, dial_nng({.address = address, .link = {}, .tls = tls}));
  return board;
}

void StormBoard::tend(TimeUs now) {
  Reply reply;
  while (channel_->receive(&reply, 0)) take(reply, now);
  if (now < ask_at_) return;
  // Sooner where an answer comes; an answer that never comes must not end the conversation.
  ask_at_ = now + 2 * kPatienceUs;
  if (session_ != 0) return beat();
  Hello hello;
  hello.name = name_;
  hello.incarnation = kIncarnation;
  hello.build = "storm";
  hello.training_rows = 100;
  hello.held_out_rows = 20;
  hello.feature_count = 8;
  hello.class_count = 3;
  channel_->send(Lane::kExchange, encode({0, hello}), kPatienceUs);
}

void StormBoard::beat() {
  Heartbeat beat;
  beat.incarnation = kIncarnation;
  channel_->send(Lane::kHeartbeat, encode({session_, beat}), kPatienceUs);
}

void StormBoard::take(const Reply& reply, TimeUs now) {
  const Result<Envelope> envelope = reply.status.ok() ? decode(reply.message) : fail(reply.status);
  ask_at_ = now + kHeartbeatUs;
  if (envelope && std::holds_alternative<HeartbeatReply>(envelope->message)) return;
  if (const Welcome* welcome = envelope ? std::get_if<Welcome>(&envelope->message) : nullptr) {
    welcome_ = *welcome;
    session_ = welcome->session;
    return;
  }
  session_ = 0;
  ask_at_ = now + kAgainUs;
  const Refused* refused = envelope ? std::get_if<Refused>(&envelope->message) : nullptr;
  trouble_ = refused != nullptr ? refused->reason
             : envelope         ? "nonsense"
                                : envelope.error().message();
}

Result<Message> StormBoard::ask(Message message) {
  const uint64_t request =
      channel_->send(Lane::kExchange, encode({session_, std::move(message)}), kPatienceUs);
  Reply reply;
  const TimeUs deadline = monotonic_now_us() + 2 * kPatienceUs;
  for (TimeUs now = monotonic_now_us(); now < deadline; now = monotonic_now_us()) {
    if (!channel_->receive(&reply, std::min(deadline, now + kHeartbeatUs))) {
      beat();
      continue;
    }
    if (reply.request != request) continue;
    Result<Envelope> envelope = reply.status.ok() ? decode(reply.message) : fail(reply.status);
    const bool refused = envelope && std::holds_alternative<Refused>(envelope->message);
    if (envelope && !refused) return std::move(envelope->message);
    session_ = 0;
    ask_at_ = 0;
    if (!envelope) return fail(envelope.error());
    return fail(Code::kRefused, "%s", std::get<Refused>(envelope->message).reason.c_str());
  }
  session_ = 0;
  ask_at_ = 0;
  return fail(Code::kTimeout, "no answer at all");
}

void StormBoard::ask_in_vain(const Message& message) {
  for (const Lane lane : {Lane::kExchange, Lane::kReady, Lane::kHeartbeat})
    channel_->send(lane, encode({session_, message}), kPatienceUs);
  Reply reply;
  // A moment to get them out: what is not sent when the next one comes is dropped.
  channel_->receive(&reply, monotonic_now_us() + kMomentUs);
}

}  // namespace paceline::test
