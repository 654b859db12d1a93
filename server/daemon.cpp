#include "server/daemon.h"

#include <algorithm>
#include <random>

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

}  // namespace

Result<std::unique_ptr<ServerDaemon>> ServerDaemon::make(ServeConfig config) {
  std::random_device entropy;
  config.core.session_seed = uint64_t{entropy()} << 32 | entropy();
  std::optional<StateStore> store;
  std::optional<StateStore::Found> found;
  if (!config.state_folder.empty()) {
    PACELINE_ASSIGN(store, StateStore::open(config.state_folder, "state"));
    Result<std::optional<StateStore::Found>> loaded = store->load();
    // Starting afresh over a run that was there is a decision for a person.
    if (!loaded && loaded.error().code() == Code::kCorrupt)
      return fail(Code::kCorrupt, "%s; remove the folder to start the run afresh",
                  loaded.error().message().c_str());
    PACELINE_ASSIGN(found, std::move(loaded));
  }
  PACELINE_ASSIGN(std::unique_ptr<ServerCore> core, ServerCore::make(config.core));
  if (found) {
    if (Status status = core->restore(found->state, found->exact); !status.ok())
      return fail(status.code(), "%s: %s", config.state_folder.c_str(), status.message().c_str());
    log_info("going on from %s: generation %llu, publication %llu%s", config.state_folder.c_str(),
             static_cast<unsigned long long>(core->generation()),
             static_cast<unsigned long long>(core->publication()),
             found->exact ? "" : " (the last life did not end in order)");
  }
  // Before anything is granted: this life's state is not exact until it ends in order.
  if (store) PACELINE_TRY(store->save(core->save(), false));
  ListenOptions listen;
  listen.address = config.listen;
  std::unique_ptr<Gate> gate;
  if (!config.fleet_folder.empty()) {
    PACELINE_ASSIGN(gate, Gate::open(config.fleet_folder, config.enrol_listen));
    listen.tls = gate->server_tls();
  }
  PACELINE_ASSIGN(std::unique_ptr<Listener> listener, listen_nng(listen));
  if (gate) gate->set_port(port_of(listener->address()));
  return std::unique_ptr<ServerDaemon>(new ServerDaemon(
      std::move(config), std::move(core), std::move(listener), std::move(store), std::move(gate)));
}

ServerDaemon::ServerDaemon(ServeConfig config, std::unique_ptr<ServerCore> core,
                           std::unique_ptr<Listener> listener, std::optional<StateStore> store,
                           std::unique_ptr<Gate> gate)
    : config_(std::move(config)),
      core_(std::move(core)),
      listener_(std::move(listener)),
      store_(std::move(store)),
      gate_(std::move(gate)) {}

void ServerDaemon::stop(Stop how) {
  stop_ = how;
  listener_->wake();
}

void ServerDaemon::serve_requests(TimeUs deadline) {
  Request request;
  for (int i = 0; i < kRequestsPerTurn && listener_->receive(&request, deadline); ++i) {
    deadline = 0;
    progress_.bytes_up += request.message.size();
    if (gate_) {
      if (const Status welcome = gate_->admit(request); !welcome.ok()) {
        turn_away(std::move(request), welcome);
        continue;
      }
    }
    const Result<Envelope> envelope = decode(request.message);
    if (!envelope) {
      if (const std::optional<std::string> more = broken_lines_.pass(monotonic_now_us()))
        log_warning("a broken message from %s: %s%s", request.peer_address.c_str(),
                    envelope.error().message().c_str(), more->c_str());
      continue;  // dropping the responder drops the request
    }
    const RequestToken token = next_token_++;
    waiting_[token] = std::move(request.responder);
    core_->on_request(token, request.peer_identity, *envelope, monotonic_now_us());
    flush();
  }
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
    disconnects_.try_emplace(outcast.key, now + kLingerUs);
  }
  std::erase_if(disconnects_, [&](const auto& entry) {
    if (now < entry.second) return false;
    log_debug("key %.16s may not be here: disconnected", entry.first.c_str());
    listener_->disconnect(entry.first);
    return true;
  });
}

void ServerDaemon::flush() {
  for (ServerCore::Reply& reply : core_->take_replies()) {
    const auto found = waiting_.find(reply.token);
    if (found == waiting_.end()) continue;
    Bytes message = encode(reply.envelope);
    progress_.bytes_down += message.size();
    found->second->reply(std::move(message));
    waiting_.erase(found);
  }
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
  if (done >= 1) core_->finish(now);
}

void ServerDaemon::checkpoint_if_due(TimeUs now) {
  if (!store_ || now < checkpoint_at_ || core_->version() == checkpoint_version_) return;
  checkpoint_at_ = now + from_ms(config_.checkpoint_ms);
  checkpoint_version_ = core_->version();
  if (Status status = store_->save(core_->save(), false); !status.ok())
    log_error("the checkpoint failed, the run goes on without: %s", status.message().c_str());
}

Status ServerDaemon::run(const std::function<void(ServerDaemon&)>& on_tick) {
  TimeUs tick_at = monotonic_now_us();
  TimeUs farewell_until = kNever;
  TimeUs linger_until = kNever;
  while (true) {
    serve_requests(std::min(core_->next_timer(), tick_at));
    const TimeUs now = monotonic_now_us();
    if (core_->next_timer() <= now) core_->on_timer(now);
    guard(now);
    flush();
    if (stop_ == Stop::kSuspend) break;
    if (stop_ == Stop::kFinish) core_->finish(now);
    follow_plan(now);
    if (now >= tick_at) {
      tick_at = now + kTickUs;
      checkpoint_if_due(now);
      flush();
      on_tick(*this);
    }
    if (core_->finished() && farewell_until == kNever) farewell_until = now + kFarewellUs;
    if (linger_until == kNever && (now >= farewell_until || core_->all_gone(now)))
      linger_until = now + kLingerUs;
    if (now >= linger_until) break;
  }
  core_->suspend();
  if (store_) PACELINE_TRY(store_->save(core_->save(), true));
  return {};
}

}  // namespace paceline
