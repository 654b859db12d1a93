// A whole fleet in one process under a virtual clock: the production cores of server and workers
// over the loopback transport, really training. The same options and seed give the same run, event
// for event.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/net/loopback.h"
#include "runtime/worker/worker_core.h"
#include "server/server_core.h"

namespace paceline {

struct FleetWorker {
  std::string name;
  TimeUs step_us = 5000;  // of one mini-batch; micro-batches and evaluations cost their share
  TimeUs joins_at_us = 0;
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  LocalRunFactory factory;
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

  // Faults. A worker that restarts has lost everything but its data and `state`, what its core
  // saved once; a server comes back from `state`.
  void stop_worker(size_t index);
  void restart_worker(size_t index, Bytes state = {});
  bool runs(size_t index) const { return agents_[index].core != nullptr; }
  Status restart_server(ByteSpan state, bool exact);

 private:
  struct Agent {
    FleetWorker plan;
    std::unique_ptr<WorkerCore> core;
    std::unique_ptr<Channel> channel;
    Bytes state;  // to start from
    uint64_t incarnation = 0;
    TimeUs unit_due = kNever;
    uint64_t unit_ticket = 0;
    TimeUs heartbeat_due = kNever;
  };

  explicit Fleet(FleetOptions options);
  void start_worker(Agent& agent);
  bool pump();  // true: something happened at now_
  bool pump_server();
  bool pump_worker(Agent& agent);
  void flush(Agent& agent);
  TimeUs next_event() const;

  FleetOptions options_;
  TimeUs now_ = 0;
  std::unique_ptr<LoopbackNetwork> network_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ServerCore> server_;
  std::map<RequestToken, std::unique_ptr<Responder>> waiting_;
  RequestToken next_token_ = 1;
  std::vector<Agent> agents_;
};

}  // namespace paceline
