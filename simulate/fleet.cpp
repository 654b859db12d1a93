#include "simulate/fleet.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"

namespace paceline {

namespace {

constexpr uint64_t kEvaluatedRows = 512;  // at most, as a board does

}  // namespace

const char* doing_name(Doing doing) {
  switch (doing) {
    case Doing::kCompute:
      return "compute";
    case Doing::kEvaluate:
      return "evaluate";
    case Doing::kSend:
      return "send";
    case Doing::kFetch:
      return "fetch";
    case Doing::kWait:
      return "wait";
    case Doing::kDiscarded:
      return "discarded";
    case Doing::kAway:
      return "away";
  }
  return "";
}

Result<std::unique_ptr<Fleet>> Fleet::make(FleetOptions options) {
  PACELINE_ASSIGN(
      std::unique_ptr<ServerCore> server,
      ServerCore::make(options.server, options.make_freq ? options.make_freq() : nullptr));
  std::unique_ptr<Fleet> fleet(new Fleet(std::move(options)));
  fleet->server_ = std::move(server);
  return fleet;
}

Fleet::Fleet(FleetOptions options)
    : options_(std::move(options)), network_(make_loopback(options_.seed, options_.faults)) {
  listener_ = network_->listen();
  for (const FleetWorker& plan : options_.workers) {
    Agent agent;
    agent.plan = plan;
    agents_.push_back(std::move(agent));
  }
}

void Fleet::start_worker(Agent& agent) {
  WorkerOptions options;
  options.name = agent.plan.name;
  options.build = "simulated";
  options.incarnation = ++agent.incarnation;
  options.training_rows = agent.plan.training_rows;
  options.held_out_rows = std::min<uint64_t>(agent.plan.held_out_rows, kEvaluatedRows);
  options.feature_count = static_cast<uint32_t>(options_.server.run.model.input_features());
  options.class_count = options_.server.run.model.class_count;
  options.jitter_seed = options_.seed;
  options.noise_bytes = [draw =
                             Random(options_.seed, crc32c(std::as_bytes(std::span(options.name))) +
                                                       (agent.incarnation << 32))](
                            std::span<std::byte> bytes) mutable {
    for (std::byte& value : bytes) value = static_cast<std::byte>(draw.next() >> 56);
  };
  options.unsend = options_.unsend;
  agent.channel = agent.plan.link ? network_->dial(agent.plan.name, *agent.plan.link)
                                  : network_->dial(agent.plan.name);
  agent.core = std::make_unique<WorkerCore>(std::move(options), agent.plan.factory);
  agent.unit_due = kNever;
  agent.heartbeat_due = now_;
  agent.started_at = now_;
  agent.asked = Doing::kWait;
  if (!agent.state.empty()) PACELINE_CHECK(agent.core->restore(agent.state).ok());
  agent.core->start(now_);
  flush(agent);
}

WorkerTotals Fleet::totals(size_t index) const {
  const Agent& agent = agents_[index];
  WorkerTotals totals = agent.past;
  if (!agent.core) return totals;
  const WorkerStats& stats = agent.core->stats();
  totals.steps += stats.steps;
  totals.exchanges += stats.exchanges;
  totals.refused += stats.refused_late + stats.rounds_missed;
  totals.waited_us += stats.waited_us;
  totals.present_us += now_ - agent.started_at;
  totals.bytes_up += agent.channel->bytes_sent();
  totals.bytes_down += agent.channel->bytes_received();
  return totals;
}

WorkerTotals Fleet::totals() const {
  WorkerTotals sum;
  for (size_t i = 0; i < agents_.size(); ++i) {
    const WorkerTotals one = totals(i);
    sum.steps += one.steps;
    sum.exchanges += one.exchanges;
    sum.refused += one.refused;
    sum.discarded += one.discarded;
    sum.waited_us += one.waited_us;
    sum.present_us += one.present_us;
    sum.bytes_up += one.bytes_up;
    sum.bytes_down += one.bytes_down;
  }
  return sum;
}

uint64_t Fleet::bytes() const {
  const WorkerTotals sum = totals();
  return sum.bytes_up + sum.bytes_down;
}

void Fleet::end_life(Agent& agent) {
  if (!agent.core) return;
  drop_unit(agent);
  agent.past = totals(static_cast<size_t>(&agent - agents_.data()));
  now_does(agent, Doing::kAway, now_);
  agent.core.reset();
  agent.channel.reset();
}

void Fleet::stop_worker(size_t index) {
  end_life(agents_[index]);
  agents_[index].plan.joins_at_us = kNever;
}

void Fleet::restart_worker(size_t index, Bytes state) {
  agents_[index].state = std::move(state);
  agents_[index].plan.joins_at_us = now_;
}

Status Fleet::restart_server(ByteSpan state, bool exact) {
  waiting_.clear();
  ++options_.server.session_seed;
  PACELINE_ASSIGN(server_, ServerCore::make(options_.server));
  return server_->restore(state, exact);
}

void Fleet::replace_server(std::unique_ptr<ServerCore> server) {
  waiting_.clear();
  server_ = std::move(server);
}

void Fleet::flush(Agent& agent) {
  for (WorkerCore::Outgoing& out : agent.core->take_outgoing()) {
    if (out.lane == Lane::kExchange) {
      const Message& message = out.envelope.message;
      agent.asked = std::holds_alternative<Push>(message)    ? Doing::kSend
                    : std::holds_alternative<Fetch>(message) ? Doing::kFetch
                                                             : Doing::kWait;
    }
    agent.channel->send(out.lane, encode(out.envelope), out.timeout_us);
  }
}

void Fleet::now_does(Agent& agent, Doing doing, TimeUs since) {
  if (agent.doing == doing) return;
  if (tracer_ && agent.doing != Doing::kAway && since > agent.doing_since)
    tracer_({static_cast<size_t>(&agent - agents_.data()), agent.doing, agent.doing_since, since});
  agent.doing = doing;
  agent.doing_since = since;
}

void Fleet::end_spans() {
  for (Agent& agent : agents_) now_does(agent, Doing::kAway, now_);
}

Doing Fleet::doing_of(const Agent& agent) const {
  switch (agent.core->activity()) {
    case Activity::kTrain:
      return Doing::kCompute;
    case Activity::kEvaluate:
      return Doing::kEvaluate;
    case Activity::kIdle:
      return agent.asked;
    case Activity::kStopped:
      break;
  }
  return Doing::kAway;
}

bool Fleet::pump_server() {
  bool happened = false;
  Request request;
  while (listener_->receive(&request, now_)) {
    happened = true;
    Result<Envelope> envelope = decode(request.message);
    if (!envelope) continue;
    if (options_.tamper) options_.tamper(&*envelope);
    const RequestToken token = next_token_++;
    waiting_[token] = std::move(request.responder);
    server_->on_request(token, request.peer_identity, *envelope, now_);
  }
  if (server_->next_timer() <= now_) {
    server_->on_timer(now_);
    happened = true;
  }
  const bool lives = !options_.before_replies || options_.before_replies(*server_);
  for (ServerCore::Reply& reply : server_->take_replies()) {
    happened = true;
    if (!lives) continue;
    const auto found = waiting_.find(reply.token);
    if (found == waiting_.end()) continue;
    found->second->reply(encode(reply.envelope));
    waiting_.erase(found);
  }
  return happened;
}

// What was begun and is not wanted any more.
void Fleet::drop_unit(Agent& agent) {
  if (agent.unit_due == kNever) return;
  agent.unit_due = kNever;
  if (agent.doing == Doing::kCompute) ++agent.past.discarded;
  if (now_ == agent.unit_began) return;
  now_does(agent, Doing::kDiscarded, agent.unit_began);
}

void Fleet::plan_unit(Agent& agent) {
  const WorkerCore& core = *agent.core;
  const FleetWorker& plan = agent.plan;
  // A forward pass costs a third of a step.
  const uint64_t rows = core.activity() == Activity::kTrain
                            ? core.next_rows()
                            : std::min(plan.held_out_rows, kEvaluatedRows) / 3;
  const TimeUs step_us = plan.step_time ? plan.step_time(now_) : plan.step_us;
  agent.unit_ticket = core.work_ticket();
  agent.unit_began = now_;
  agent.unit_due = now_ + step_us * static_cast<TimeUs>(rows) /
                              static_cast<TimeUs>(options_.server.run.training.batch);
}

void Fleet::receive(Agent& agent, bool* happened) {
  Reply reply;
  while (agent.channel->receive(&reply, now_)) {
    *happened = true;
    if (!reply.status.ok()) {
      agent.core->on_failure(reply.lane, reply.status, now_);
    } else if (const Result<Envelope> envelope = decode(reply.message)) {
      agent.core->on_reply(reply.lane, *envelope, now_);
    }
  }
}

// Joins, leaves, crashes and returns.
bool Fleet::follow_plan(Agent& agent) {
  FleetWorker& plan = agent.plan;
  if (!agent.core) {
    if (plan.joins_at_us > now_) return false;
    start_worker(agent);
    return true;
  }
  if (plan.crashes_at_us <= now_) {
    end_life(agent);
    plan.crashes_at_us = kNever;
    plan.joins_at_us = plan.back_after_us == kNever ? kNever : now_ + plan.back_after_us;
    return true;
  }
  if (plan.leaves_at_us <= now_) {
    plan.leaves_at_us = kNever;
    agent.leaves = true;
    agent.core->leave(now_);
    flush(agent);
    return true;
  }
  if (agent.leaves && agent.core->activity() == Activity::kStopped) {
    end_life(agent);
    plan.joins_at_us = kNever;
    return true;
  }
  return false;
}

bool Fleet::pump_worker(Agent& agent) {
  if (follow_plan(agent)) return true;
  if (!agent.core) return false;
  WorkerCore& core = *agent.core;
  bool happened = false;
  receive(agent, &happened);
  if (core.next_timer() <= now_) {
    core.on_timer(now_);
    happened = true;
  }
  if (agent.unit_due <= now_ && agent.unit_ticket == core.work_ticket()) {
    agent.unit_due = kNever;
    core.work(now_);
    happened = true;
  }
  const Doing doing = doing_of(agent);
  const bool computes = doing == Doing::kCompute || doing == Doing::kEvaluate;
  if (!computes || agent.unit_ticket != core.work_ticket()) drop_unit(agent);
  if (computes && agent.unit_due == kNever) plan_unit(agent);
  if (agent.heartbeat_due <= now_) {
    if (std::optional<Envelope> beat = core.heartbeat())
      agent.channel->send(Lane::kHeartbeat, encode(*beat), from_ms(core.heartbeat_ms()));
    agent.heartbeat_due = now_ + from_ms(core.heartbeat_ms());
  }
  flush(agent);
  now_does(agent, doing_of(agent), now_);
  return happened;
}

bool Fleet::pump() {
  network_->advance_to(now_);
  bool happened = pump_server();
  for (Agent& agent : agents_) happened = pump_worker(agent) || happened;
  return happened;
}

TimeUs Fleet::next_event() const {
  TimeUs next = std::min(network_->next_due(), server_->next_timer());
  for (const Agent& agent : agents_) {
    if (!agent.core) {
      next = std::min(next, agent.plan.joins_at_us);
      continue;
    }
    next = std::min({next, agent.core->next_timer(), agent.unit_due, agent.plan.leaves_at_us,
                     agent.plan.crashes_at_us});
    if (agent.core->activity() != Activity::kStopped) next = std::min(next, agent.heartbeat_due);
  }
  return next;
}

bool Fleet::run(TimeUs until, const std::function<bool()>& done) {
  while (true) {
    while (pump()) {
      if (done()) return true;
    }
    if (done()) return true;
    const TimeUs next = next_event();
    if (next > until) return false;
    PACELINE_CHECK(next >= now_);
    now_ = std::max(next, now_ + 1);
  }
}

}  // namespace paceline
