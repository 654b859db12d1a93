#include "simulate/fleet.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline {

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
  options.held_out_rows = std::min<uint64_t>(agent.plan.held_out_rows, 512);
  options.feature_count = static_cast<uint32_t>(options_.server.run.model.input_features());
  options.class_count = options_.server.run.model.class_count;
  options.jitter_seed = options_.seed;
  options.unsend = options_.unsend;
  agent.channel = network_->dial(agent.plan.name);
  agent.core = std::make_unique<WorkerCore>(std::move(options), agent.plan.factory);
  agent.unit_due = kNever;
  agent.heartbeat_due = now_;
  if (!agent.state.empty()) PACELINE_CHECK(agent.core->restore(agent.state).ok());
  agent.core->start(now_);
  flush(agent);
}

uint64_t Fleet::bytes() const {
  uint64_t sum = 0;
  for (const Agent& agent : agents_)
    if (agent.channel) sum += agent.channel->bytes_sent() + agent.channel->bytes_received();
  return sum;
}

void Fleet::stop_worker(size_t index) {
  Agent& agent = agents_[index];
  agent.core.reset();
  agent.channel.reset();
  agent.plan.joins_at_us = kNever;
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

void Fleet::flush(Agent& agent) {
  for (WorkerCore::Outgoing& out : agent.core->take_outgoing())
    agent.channel->send(out.lane, encode(out.envelope), out.timeout_us);
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
  for (ServerCore::Reply& reply : server_->take_replies()) {
    happened = true;
    const auto found = waiting_.find(reply.token);
    if (found == waiting_.end()) continue;
    found->second->reply(encode(reply.envelope));
    waiting_.erase(found);
  }
  return happened;
}

bool Fleet::pump_worker(Agent& agent) {
  if (!agent.core) {
    if (agent.plan.joins_at_us > now_) return false;
    start_worker(agent);
    return true;
  }
  WorkerCore& core = *agent.core;
  bool happened = false;
  Reply reply;
  while (agent.channel->receive(&reply, now_)) {
    happened = true;
    if (!reply.status.ok()) {
      core.on_failure(reply.lane, reply.status, now_);
    } else if (const Result<Envelope> envelope = decode(reply.message)) {
      core.on_reply(reply.lane, *envelope, now_);
    }
  }
  if (core.next_timer() <= now_) {
    core.on_timer(now_);
    happened = true;
  }
  if (agent.unit_due <= now_ && agent.unit_ticket == core.work_ticket()) {
    agent.unit_due = kNever;
    core.work(now_);
    happened = true;
  }
  const Activity activity = core.activity();
  const bool computes = activity == Activity::kTrain || activity == Activity::kEvaluate;
  if (!computes) {
    agent.unit_due = kNever;
  } else if (agent.unit_due == kNever || agent.unit_ticket != core.work_ticket()) {
    const uint64_t batch = options_.server.run.training.batch;
    // A forward pass costs a third of a step.
    const uint64_t rows = activity == Activity::kTrain
                              ? core.next_rows()
                              : std::min<uint64_t>(agent.plan.held_out_rows, 512) / 3;
    agent.unit_ticket = core.work_ticket();
    agent.unit_due =
        now_ + agent.plan.step_us * static_cast<TimeUs>(rows) / static_cast<TimeUs>(batch);
  }
  if (agent.heartbeat_due <= now_) {
    if (std::optional<Envelope> beat = core.heartbeat())
      agent.channel->send(Lane::kHeartbeat, encode(*beat), from_ms(core.heartbeat_ms()));
    agent.heartbeat_due = now_ + from_ms(core.heartbeat_ms());
  }
  flush(agent);
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
    next = std::min({next, agent.core->next_timer(), agent.unit_due});
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
