#include "runtime/worker/worker_core.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/log.h"

namespace paceline {

WorkerCore::WorkerCore(WorkerOptions options, LocalRunFactory factory)
    : options_(std::move(options)),
      factory_(std::move(factory)),
      jitter_(options_.jitter_seed, options_.incarnation) {}

Status WorkerCore::restore(ByteSpan state) {
  PACELINE_ASSIGN(WorkerState saved, decode_state(state));
  if (saved.name != options_.name)
    return fail(Code::kInvalidArgument, "it is the state of worker '%s'", saved.name.c_str());
  saved_ = std::move(saved);
  saved_bytes_.assign(state.begin(), state.end());
  restored_ = Restored::kWaiting;
  return {};
}

Bytes WorkerCore::save() const {
  if (saved_) return saved_bytes_;  // nothing is known yet that it does not say
  if (!run_.trainer) return {};
  WorkerState state;
  state.name = options_.name;
  state.run_checksum = run_checksum_;
  state.generation = generation_;
  state.last_settled = last_settled_;
  state.pending = pending_;
  state.next_sequence = next_sequence_;
  state.round = round_;
  state.tau = directive_.tau;
  state.cursor = run_.trainer->cursor();
  state.lost_gradient_total = stats_.lost_gradient_total;
  state.update_norms = update_norms_;
  state.residual_norms = residual_norms_;
  state.residual = residual_;
  state.optimizer = optimizer_->state();
  return encode_state(state);
}

void WorkerCore::start(TimeUs now) {
  say_hello(now);
  update_idle(now);
}

void WorkerCore::on_reply(Lane lane, const Envelope& reply, TimeUs now) {
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  if (phase_ == Phase::kStopped) return;
  const Message& message = reply.message;
  const auto* refused = std::get_if<Refused>(&message);
  // A refusal that speaks of a session that we have left already says nothing new.
  const bool stale = refused != nullptr && reply.session != 0 && reply.session != session_;
  const uint32_t failures = state.failures;
  // Being refused again and again is asked for less and less often.
  if (refused == nullptr) state.failures = 0;
  if (lane == Lane::kHeartbeat) {
    if (const auto* beat = std::get_if<HeartbeatReply>(&message)) on_heartbeat(*beat, now);
    if (refused != nullptr && !stale && phase_ != Phase::kConnect) on_refused(*refused, now);
  } else if (const auto* wait = std::get_if<Wait>(&message)) {
    waiting_for_ = wait->reason;
    resend(lane);
  } else if (refused != nullptr && !stale) {
    on_refused(*refused, now);
  } else if (lane == Lane::kReady) {
    const auto* close = std::get_if<Close>(&message);
    if (close != nullptr && close->round == round_ && phase_ == Phase::kTrain) {
      cut_now_ = true;
      ++work_ticket_;
      after_unit(now);
    }
  } else if (phase_ != Phase::kTrain && !take_answer(message, now)) {
    // What was asked has had its reply, and no other one comes: without asking again it would wait
    // for ever.
    state.failures = failures;
    on_failure(lane, fail(Code::kCorrupt, "its answer is a %s", message_name(message)), now);
  }
  update_idle(now);
}

// False: it answers something else than was asked.
bool WorkerCore::take_answer(const Message& message, TimeUs now) {
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (phase_ != Phase::kConnect) return false;
    on_welcome(*welcome, now);
  } else if (const auto* fetched = std::get_if<Fetched>(&message)) {
    if (phase_ != Phase::kFetch) return false;
    on_fetched(*fetched, now);
  } else if (const auto* got = std::get_if<Got>(&message)) {
    if (phase_ != Phase::kPush || !pending_ || got->sequence != pending_->sequence ||
        got->chunk != pending_->next_chunk)
      return false;
    ++pending_->next_chunk;
    if (transfer_began_ != kNever) measured_.push_us = transfer_us(now);
    push_next();
  } else if (const auto* missing = std::get_if<Missing>(&message)) {
    if (phase_ != Phase::kCommit || !pending_ || missing->sequence != pending_->sequence)
      return false;
    // The server holds other chunks of this sequence than we do, or none: all of them again.
    pending_->next_chunk = 0;
    transfer_began_ = kNever;
    enter(Phase::kPush, now);
    push_next();
  } else if (const auto* granted = std::get_if<Granted>(&message)) {
    if (phase_ != Phase::kCommit || !pending_ || granted->sequence != pending_->sequence)
      return false;
    on_granted(*granted, now);
  } else {
    return false;
  }
  return true;
}

void WorkerCore::on_failure(Lane lane, const Status& status, TimeUs now) {
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  if (phase_ == Phase::kStopped || lane == Lane::kHeartbeat) return;
  ++state.failures;
  if (lane == Lane::kExchange) transfer_began_ = kNever;
  if (lane == Lane::kExchange) waiting_for_ = "the server: " + status.message();
  retry_later(lane, now);
  update_idle(now);
}

void WorkerCore::on_timer(TimeUs now) {
  for (size_t i = 0; i < kLaneCount; ++i) {
    if (lanes_[i].retry_at > now) continue;
    lanes_[i].retry_at = kNever;
    resend(static_cast<Lane>(i));
  }
  update_idle(now);
}

void WorkerCore::work(TimeUs now) {
  const Activity what = activity();
  PACELINE_CHECK(what == Activity::kTrain || what == Activity::kEvaluate);
  if (what == Activity::kEvaluate)
    evaluate_unit(now);
  else
    train_unit(now);
  update_idle(now);
}

void WorkerCore::leave(TimeUs now) {
  if (leaving_ || phase_ == Phase::kStopped) return;
  leaving_ = true;
  // Also with nothing new: the residual goes, and the server need not wait for a heartbeat to miss.
  const bool answered = lanes_[static_cast<size_t>(Lane::kExchange)].failures == 0;
  if (phase_ == Phase::kTrain || (phase_ == Phase::kFetch && publication_ != 0)) {
    cut(now);
  } else if (phase_ == Phase::kCommit) {
    commit();
  } else if (phase_ != Phase::kPush && (clock_ == 0 || !answered)) {
    enter(Phase::kStopped, now);
  }
  update_idle(now);
}

std::vector<WorkerCore::Outgoing> WorkerCore::take_outgoing() {
  return std::exchange(outgoing_, {});
}

Activity WorkerCore::activity() const {
  if (phase_ == Phase::kStopped) return Activity::kStopped;
  if (phase_ != Phase::kTrain || !run_.trainer->ready()) return Activity::kIdle;
  if (evaluate_next_) return Activity::kEvaluate;
  return steps_done() < steps_cap() ? Activity::kTrain : Activity::kIdle;
}

TimeUs WorkerCore::next_timer() const {
  TimeUs next = kNever;
  for (const LaneState& lane : lanes_) next = std::min(next, lane.retry_at);
  return next;
}

std::optional<Envelope> WorkerCore::heartbeat() const {
  if (session_ == 0 || phase_ == Phase::kStopped) return std::nullopt;
  Heartbeat beat;
  beat.incarnation = options_.incarnation;
  beat.clock = clock_;
  beat.round = round_;
  beat.step_us = static_cast<uint32_t>(std::min(step_us_, 4e9));
  beat.resting = activity() == Activity::kIdle;
  return Envelope{session_, beat};
}

void WorkerCore::send(Lane lane, Message message, TimeUs timeout_us) {
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  state.message = std::move(message);
  state.timeout_us = timeout_us;
  state.retry_at = kNever;
  resend(lane);
}

void WorkerCore::resend(Lane lane) {
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  if (!state.message) return;
  const bool hello = std::holds_alternative<Hello>(*state.message);
  outgoing_.push_back({lane, {hello ? 0 : session_, *state.message}, state.timeout_us});
}

void WorkerCore::retry_later(Lane lane, TimeUs now) {
  // 100 ms, doubling to 25 s, and as much again at random: a whole fleet must not come back in
  // step.
  LaneState& state = lanes_[static_cast<size_t>(lane)];
  const uint32_t doublings = std::min(state.failures > 0 ? state.failures - 1 : 0, 8u);
  const TimeUs pause = from_ms(100) << doublings;
  state.retry_at =
      now + pause / 2 + static_cast<TimeUs>(jitter_.below(static_cast<uint64_t>(pause)));
}

void WorkerCore::enter(Phase phase, TimeUs now) {
  phase_ = phase;
  ++work_ticket_;
  unit_started_ = now;
  if (phase != Phase::kTrain) {
    LaneState& ready = lanes_[static_cast<size_t>(Lane::kReady)];
    ready.message.reset();
    ready.retry_at = kNever;
  }
  if (phase == Phase::kStopped)
    for (LaneState& lane : lanes_) lane = {};
}

void WorkerCore::update_idle(TimeUs now) {
  const bool idle = activity() == Activity::kIdle && stats_.steps > 0;
  if (idle && idle_since_ == kNever) {
    idle_since_ = now;
  } else if (!idle && idle_since_ != kNever) {
    stats_.waited_us += now - idle_since_;
    idle_since_ = kNever;
    unit_started_ = now;
  }
}

void WorkerCore::fail_with(Status status) {
  failure_ = std::move(status);
  phase_ = Phase::kStopped;
  for (LaneState& lane : lanes_) lane = {};
}

}  // namespace paceline
