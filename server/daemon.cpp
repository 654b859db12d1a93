#include "server/daemon.h"

#include <algorithm>
#include <random>

#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/net/address.h"

namespace paceline {

namespace {

constexpr TimeUs kTickUs = from_ms(100);
// After the run: how long a worker that still lives may take to fetch the model, and how long
// replies may take to leave the process.
constexpr TimeUs kFarewellUs = from_ms(10'000);
constexpr TimeUs kLingerUs = from_ms(500);
constexpr int kRequestsPerTurn = 64;

RunKeeperOptions keeper_options(const ServeConfig& config) {
  RunKeeperOptions options;
  options.folder = config.state_folder;
  options.journal = config.journal;
  options.waits_for_disk = config.waits_for_disk;
  options.snapshot_every_us = from_ms(config.snapshot_ms());
  return options;
}

// Says nothing that a crash could make untrue: it names no verdict, no model and no place.
bool rests_on_nothing(const Message& message) {
  const auto* refused = std::get_if<Refused>(&message);
  return std::holds_alternative<Got>(message) || std::holds_alternative<Missing>(message) ||
         std::holds_alternative<Wait>(message) || std::holds_alternative<HeartbeatReply>(message) ||
         (refused != nullptr && refused->refusal == RefusalClass::kStaleSession);
}

// Without certificates a connection is all that tells two workers apart.
const std::string& who_asks(const Request& request) {
  return request.peer_identity.empty() ? request.peer_address : request.peer_identity;
}

}  // namespace

Result<std::unique_ptr<ServerDaemon>> ServerDaemon::make(ServeConfig config) {
  std::random_device entropy;
  config.core.session_seed = uint64_t{entropy()} << 32 | entropy();
  if (!config.state_folder.empty()) config.core.recording = config.journal;
  PACELINE_ASSIGN(std::unique_ptr<ServerCore> core, ServerCore::make(config.core));
  std::unique_ptr<RunKeeper> keeper;
  if (!config.state_folder.empty()) {
    PACELINE_ASSIGN(keeper, RunKeeper::open(keeper_options(config)));
    PACELINE_TRY(keeper->begin(core.get()));
  }
  ListenOptions listen;
  listen.address = config.listen;
  listen.sessions_max = kWorkersMax;
  std::unique_ptr<Gate> gate;
  if (!config.fleet_folder.empty()) {
    PACELINE_ASSIGN(gate, Gate::open(config.fleet_folder, config.enrol_listen));
    listen.tls = gate->server_tls();
  }
  PACELINE_ASSIGN(std::unique_ptr<Listener> listener, listen_nng(listen));
  if (gate) gate->set_port(port_of(listener->address()));
  return std::unique_ptr<ServerDaemon>(new ServerDaemon(
      std::move(config), std::move(core), std::move(listener), std::move(keeper), std::move(gate)));
}

ServerDaemon::ServerDaemon(ServeConfig config, std::unique_ptr<ServerCore> core,
                           std::unique_ptr<Listener> listener, std::unique_ptr<RunKeeper> keeper,
                           std::unique_ptr<Gate> gate)
    : config_(std::move(config)),
      core_(std::move(core)),
      listener_(std::move(listener)),
      keeper_(std::move(keeper)),
      gate_(std::move(gate)) {}

void ServerDaemon::stop(Stop how) {
  stop_ = how;
  listener_->wake();
}

void ServerDaemon::receive_requests(TimeUs deadline) {
  Request request;
  for (int i = 0; i < kRequestsPerTurn && listener_->receive(&request, deadline); ++i) {
    deadline = 0;
    progress_.bytes_up += request.message.size();
    const TimeUs now = monotonic_now_us();
    const std::string& who = who_asks(request);
    const std::optional<TimeUs> at = rates_.take(who, request.message.size(), now);
    if (!at || *at > now)
      if (const std::optional<std::string> more = flood_lines_.pass(now))
        log_warning("%s asks more often than a worker can: it is answered later%s", who.c_str(),
                    more->c_str());
    if (!at) continue;  // dropping the responder drops the request
    if (*at > now) {
      later_.emplace(*at, std::move(request));
      continue;
    }
    serve_due(now);  // what one worker asked before comes first
    serve(std::move(request));
  }
}

void ServerDaemon::serve_due(TimeUs now) {
  while (!later_.empty() && later_.begin()->first <= now) {
    Request request = std::move(later_.begin()->second);
    later_.erase(later_.begin());
    serve(std::move(request));
  }
}

void ServerDaemon::serve(Request request) {
  if (gate_) {
    if (const Status welcome = gate_->admit(request); !welcome.ok())
      return turn_away(std::move(request), welcome);
    disconnects_.erase(request.peer_key);  // the list has changed its mind
  }
  const Result<Envelope> envelope = decode(request.message);
  if (!envelope) {
    if (const std::optional<std::string> more = broken_lines_.pass(monotonic_now_us()))
      log_warning("a broken message from %s: %s%s", request.peer_address.c_str(),
                  envelope.error().message().c_str(), more->c_str());
    return;  // dropping the responder drops the request
  }
  if (keeper_ && keeper_->stalled() && !std::holds_alternative<Heartbeat>(envelope->message))
    return put_off(std::move(request), monotonic_now_us());
  const RequestToken token = next_token_++;
  waiting_[token] = std::move(request.responder);
  core_->on_request(token, request.peer_identity, *envelope, monotonic_now_us());
  note_event();
}

// Told why, and disconnected when that has had time to arrive.
void ServerDaemon::turn_away(Request request, const Status& why) {
  const TimeUs now = monotonic_now_us();
  if (const std::optional<std::string> more = refused_lines_.pass(now))
    log_warning("refused %s: %s%s", request.peer_address.c_str(), why.message().c_str(),
                more->c_str());
  disconnects_.try_emplace(request.peer_key, now + kLingerUs);
  request.responder->reply(encode({0, refusal_of(why)}));
}

// Follows the fleet's list.
void ServerDaemon::guard(TimeUs now) {
  if (!gate_) return;
  for (const Gate::Outcast& outcast : gate_->tick(now)) {
    core_->expel(outcast.name, outcast.why, now);
    note_event();
    disconnects_.try_emplace(outcast.key, now + kLingerUs);
  }
  std::erase_if(disconnects_, [&](const auto& entry) {
    if (now < entry.second) return false;
    log_debug("key %.16s may not be here: disconnected", entry.first.c_str());
    listener_->disconnect(entry.first);
    return true;
  });
}

// What the core has just done is written down; what it says is sent, if it may be said yet.
void ServerDaemon::note_event() {
  if (keeper_) keeper_->record(core_.get());
  const bool unsynced = keeper_ && keeper_->unsynced();
  for (ServerCore::Reply& reply : core_->take_replies()) {
    if (unsynced && !rests_on_nothing(reply.envelope.message))
      held_back_.push_back(std::move(reply));
    else
      send(std::move(reply));
  }
}

void ServerDaemon::send(ServerCore::Reply reply) {
  const auto found = waiting_.find(reply.token);
  if (found == waiting_.end()) return;
  Bytes message = encode(reply.envelope);
  progress_.bytes_down += message.size();
  found->second->reply(std::move(message));
  waiting_.erase(found);
}

// One sync for all that a turn of the loop has brought.
void ServerDaemon::commit(TimeUs now) {
  if (keeper_ && !keeper_->commit(core_.get(), now)) return;
  for (ServerCore::Reply& reply : std::exchange(held_back_, {})) {
    // It was granted before that could be known.
    if (auto* granted = std::get_if<Granted>(&reply.envelope.message))
      granted->durable = core_->options().durable;
    send(std::move(reply));
  }
}

void ServerDaemon::put_off(Request request, TimeUs now) {
  const TimeUs until = now + from_ms(config_.core.exchange_deadline_ms) / 2;
  if (const auto in_its_place =
          put_off_.add(who_asks(request), std::move(request.responder), until))
    in_its_place->reply(encode({0, Wait{"the server can't write: " + keeper_->trouble()}}));
}

// They ask again at once.
void ServerDaemon::answer_put_off(TimeUs now) {
  const bool stalled = keeper_ && keeper_->stalled();
  for (const auto& responder : stalled ? put_off_.take_due(now) : put_off_.take_all())
    responder->reply(encode({0, Wait{stalled ? "the server can't write: " + keeper_->trouble()
                                             : "the server writes"}}));
}

void ServerDaemon::follow_plan(TimeUs now) {
  if (started_at_ == kNever) {
    if (core_->members().empty() ||
        std::ranges::none_of(core_->members(), [](const Member& m) { return m.session != 0; }))
      return;
    started_at_ = now;
  }
  progress_.seconds = to_seconds(now - started_at_);
  if (config_.seconds <= 0 && config_.rounds == 0) return;
  double done = 0;
  if (config_.seconds > 0) done = progress_.seconds / config_.seconds;
  if (config_.rounds > 0)
    done = std::max(
        done, static_cast<double>(core_->rounds_done()) / static_cast<double>(config_.rounds));
  core_->set_progress(std::min(done, 1.0));
  if (done >= 1) finish(now);
}

void ServerDaemon::finish(TimeUs now) {
  core_->finish(now);
  note_event();
}

Status ServerDaemon::run(const std::function<void(ServerDaemon&)>& on_tick) {
  TimeUs tick_at = monotonic_now_us();
  TimeUs farewell_until = kNever;
  TimeUs linger_until = kNever;
  while (true) {
    const TimeUs due = later_.empty() ? kNever : later_.begin()->first;
    receive_requests(std::min({core_->next_timer(), tick_at, due}));
    const TimeUs now = monotonic_now_us();
    serve_due(now);
    if (core_->next_timer() <= now) core_->on_timer(now);
    guard(now);
    note_event();
    commit(now);
    if (stop_ == Stop::kSuspend) break;
    if (stop_ == Stop::kFinish) finish(now);
    follow_plan(now);
    if (now >= tick_at) {
      tick_at = now + kTickUs;
      if (keeper_) keeper_->tick(core_.get(), now);
      answer_put_off(now);
      commit(now);
      on_tick(*this);
    }
    if (core_->finished() && farewell_until == kNever) farewell_until = now + kFarewellUs;
    if (linger_until == kNever && (now >= farewell_until || core_->all_gone(now)))
      linger_until = now + kLingerUs;
    if (now >= linger_until) break;
  }
  core_->suspend();
  return keeper_ ? keeper_->end(core_.get()) : Status();
}

}  // namespace paceline
