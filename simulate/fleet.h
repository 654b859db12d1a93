// A whole fleet in one process under a virtual clock: the production cores of server and workers
// over the loopback transport, really training. The same options and seed give the same run, event
// for event.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/net/loopback.h"
#include "runtime/worker/worker_core.h"
#include "server/server_core.h"

namespace paceline {

struct FleetWorker {
  std::string name;
  TimeUs step_us = 5000;  // of one mini-batch; micro-batches and evaluations cost their share
  // What a mini-batch that begins at `now` takes, instead of step_us.
  std::function<TimeUs(TimeUs now)> step_time;
  std::optional<LoopbackFaults> link;  // its own, instead of the fleet's
  TimeUs joins_at_us = 0;
  TimeUs leaves_at_us = kNever;  // in order
  TimeUs crashes_at_us = kNever;
  TimeUs back_after_us = kNever;  // of a crash; it has lost everything but its data
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  LocalRunFactory factory;
};

// What a worker does at a time. kSend and kFetch: an update is on its way up, a model down. kWait:
// for an answer that is not parked for its sake: the others, its pace, a lost message.
enum class Doing { kCompute, kEvaluate, kSend, kFetch, kWait, kDiscarded, kAway };
const char* doing_name(Doing doing);

// kDiscarded: a step that had become pointless before it ended.
struct FleetSpan {
  size_t worker;
  Doing doing;
  TimeUs from, to;
};

// Of all lives of a worker.
struct WorkerTotals {
  uint64_t steps = 0;
  uint64_t exchanges = 0;
  uint64_t refused = 0;    // updates that came too late, or whose round had closed
  uint64_t discarded = 0;  // steps that had become pointless before they ended
  TimeUs waited_us = 0;
  TimeUs present_us = 0;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
};

struct FleetOptions {
  ServerOptions server;
  std::vector<FleetWorker> workers;
  LoopbackFaults faults;
  uint64_t seed = 1;
  bool unsend = true;  // of all workers, as WorkerOptions has it
  // Sees each request before the server does, and may change it: a fault that the loopback can't
  // make.
  std::function<void(Envelope*)> tamper;
  // Sees the server after what came in at one instant, before its replies leave. False: it dies,
  // and none leaves.
  std::function<bool(ServerCore&)> before_replies;
  // Replaces the frequency policy that the server options name, for this fleet's first server.
  std::function<std::unique_ptr<Freq>()> make_freq;
};

class Fleet {
 public:
  // Errors: as ServerCore::make().
  static Result<std::unique_ptr<Fleet>> make(FleetOptions options);

  // Runs until `done` holds (asked after every instant) or the clock passes `until`. False: time is
  // up.
  bool run(TimeUs until, const std::function<bool()>& done);

  TimeUs now() const { return now_; }
  ServerCore& server() { return *server_; }
  WorkerCore& worker(size_t index) { return *agents_[index].core; }
  size_t worker_count() const { return agents_.size(); }
  LoopbackNetwork& network() { return *network_; }
  // Message bytes of all workers so far, both ways.
  uint64_t bytes() const;
  WorkerTotals totals(size_t index) const;
  WorkerTotals totals() const;  // of all workers
  // Requests that the server has not answered yet.
  size_t requests_waiting() const { return waiting_.size(); }
  // Sees each span when it ends; the last ones at end_spans().
  void set_tracer(std::function<void(const FleetSpan&)> tracer) { tracer_ = std::move(tracer); }
  void end_spans();

  // Faults. A worker that restarts has lost everything but its data and `state`, what its core
  // saved once; a server comes back from `state`.
  void stop_worker(size_t index);
  void restart_worker(size_t index, Bytes state = {});
  bool runs(size_t index) const { return agents_[index].core != nullptr; }
  Status restart_server(ByteSpan state, bool exact);
  void replace_server(std::unique_ptr<ServerCore> server);

 private:
  struct Agent {
    FleetWorker plan;
    std::unique_ptr<WorkerCore> core;
    std::unique_ptr<Channel> channel;
    Bytes state;  // to start from
    uint64_t incarnation = 0;
    TimeUs unit_began = 0;
    TimeUs unit_due = kNever;
    uint64_t unit_ticket = 0;
    TimeUs heartbeat_due = kNever;
    TimeUs started_at = 0;  // this life
    bool leaves = false;
    WorkerTotals past;  // of its earlier lives; discarded: of this one, too
    Doing doing = Doing::kAway;
    Doing asked = Doing::kWait;  // for what its newest request on the exchange lane is
    TimeUs doing_since = 0;
  };

  explicit Fleet(FleetOptions options);
  void start_worker(Agent& agent);
  bool pump();  // true: something happened at now_
  bool pump_server();
  bool pump_worker(Agent& agent);
  void flush(Agent& agent);
  void receive(Agent& agent, bool* happened);
  void plan_unit(Agent& agent);
  void drop_unit(Agent& agent);
  bool follow_plan(Agent& agent);
  void end_life(Agent& agent);
  void now_does(Agent& agent, Doing doing, TimeUs since);
  Doing doing_of(const Agent& agent) const;
  TimeUs next_event() const;

  FleetOptions options_;
  TimeUs now_ = 0;
  std::unique_ptr<LoopbackNetwork> network_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ServerCore> server_;
  std::map<RequestToken, std::unique_ptr<Responder>> waiting_;
  RequestToken next_token_ = 1;
  std::vector<Agent> agents_;
  std::function<void(const FleetSpan&)> tracer_;
};

}  // namespace paceline
