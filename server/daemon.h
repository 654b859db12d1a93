// edge_server's engine: one listener, one core, a keeper of its state, until the run ends or is
// stopped. What is said rests on what is durable: replies wait for the journal, all that came in
// one turn of the loop for one sync.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/log_limit.h"
#include "runtime/net/transport.h"
#include "server/gate.h"
#include "server/put_off_requests.h"
#include "server/request_rates.h"
#include "server/run_config.h"
#include "server/run_keeper.h"
#include "server/server_core.h"

namespace paceline {

struct ServerProgress {
  double seconds = 0;       // since the first worker joined
  uint64_t bytes_up = 0;    // messages from workers
  uint64_t bytes_down = 0;  // messages to workers
};

class ServerDaemon {
 public:
  enum class Stop {
    kNone,
    kFinish,   // end the run at the next cut, let the workers fetch the model, return
    kSuspend,  // keep the state and return; workers wait for the server to come back
  };

  // Listens, and goes on from the state folder if there is one. Errors: those of listen_nng(),
  // RunKeeper and ServerCore.
  static Result<std::unique_ptr<ServerDaemon>> make(ServeConfig config);

  // Serves until the plan is done or stop() is called. `on_tick` is called about ten times a second
  // on this thread.
  Status run(const std::function<void(ServerDaemon&)>& on_tick);

  // From any thread.
  void stop(Stop how);

  const ServerCore& core() const { return *core_; }
  const ServerProgress& progress() const { return progress_; }
  std::string address() const { return listener_->address(); }

 private:
  ServerDaemon(ServeConfig config, std::unique_ptr<ServerCore> core,
               std::unique_ptr<Listener> listener, std::unique_ptr<RunKeeper> keeper,
               std::unique_ptr<Gate> gate);
  void receive_requests(TimeUs deadline);
  void serve(Request request);
  void serve_due(TimeUs now);
  void note_event();
  void send(ServerCore::Reply reply);
  void commit(TimeUs now);
  void put_off(Request request, TimeUs now);
  void answer_put_off(TimeUs now);
  void turn_away(Request request, const Status& why);
  void guard(TimeUs now);
  void follow_plan(TimeUs now);
  void finish(TimeUs now);

  ServeConfig config_;
  std::unique_ptr<ServerCore> core_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<RunKeeper> keeper_;  // null: nothing is kept
  std::unique_ptr<Gate> gate_;         // null: everybody who reaches the port is let in
  // Keys of those who were told that they may not be here.
  std::map<std::string, TimeUs> disconnects_;
  RequestRates rates_;
  std::multimap<TimeUs, Request> later_;  // of workers that ask too often
  std::map<RequestToken, std::unique_ptr<Responder>> waiting_;
  RequestToken next_token_ = 1;
  std::vector<ServerCore::Reply> held_back_;  // until what they rest on is durable
  PutOffRequests put_off_;
  std::atomic<Stop> stop_ = Stop::kNone;
  ServerProgress progress_;
  LogLimit broken_lines_;       // about messages that are none
  LogLimit refused_lines_;      // about workers that may not be here
  LogLimit flood_lines_;        // about workers that ask too often
  TimeUs started_at_ = kNever;  // when the first worker joined
};

}  // namespace paceline
