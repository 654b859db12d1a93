// A pace alone under a virtual clock: who computes when, who waits for whom, how stale updates are.
//
// No network, model or codec: an iteration takes its worker's time, an exchange none. The policies
// are the production ones. What comes out is what a rule can give at best on a fleet, in
// milliseconds of computing; simulate/fleet.h trains for real. The same options give the same run,
// event for event, on every machine. At equal times the worker with the lower number is first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/pace/pace.h"
#include "simulate/due_queue.h"

namespace paceline {

struct PaceWorldOptions {
  std::string pace = "bsp";
  std::vector<TimeUs> iteration_us;  // of each worker; at least 8
  double jitter = 0;                 // an iteration takes 1 - jitter to 1 + jitter times as long
  double slow_share = 0;             // of the iterations: they take slow_factor times as long
  double slow_factor = 1;
  uint64_t seed = 1;
  TimeUs planned_us = 0;  // length of the run, for paces that follow its progress; 0: no plan
};

struct PaceFigures {
  uint64_t iterations = 0;  // finished ones, in mini-batches
  uint64_t discarded = 0;   // of these: refused as late
  uint64_t updates = 0;     // applied
  uint64_t rounds = 0;      // closes
  uint64_t events = 0;      // pieces of work that ended
  double utilisation = 0;   // time of the finished iterations in all workers' time
  double staleness_mean = 0;
  uint64_t staleness_max = 0;
  uint64_t lead_max = 0;  // of a clock over the smallest, right after a push
};

struct PaceEvent {
  enum class Kind { kStart, kApply, kDiscard } kind;
  TimeUs at;
  uint32_t worker;
  uint64_t version;  // start: that it computes on; apply: before it is applied
  bool operator==(const PaceEvent&) const = default;
};

class PaceWorld {
 public:
  // Errors: kInvalidArgument for a pace or times that can't be.
  static Result<std::unique_ptr<PaceWorld>> make(PaceWorldOptions options);

  static constexpr TimeUs kRunUsMax = 4'000'000'000'000;  // 46 days

  // Until the clock has reached `until`, what is due at that instant included.
  void run(TimeUs until);

  // A worker that leaves or crashes: its work in progress is lost, a pushed update stays.
  void leave(uint32_t worker);
  // It comes (back), at the slowest member's clock.
  void join(uint32_t worker);
  bool present(uint32_t worker) const { return workers_[worker].state != State::kAway; }
  size_t worker_count() const { return workers_.size(); }
  // Of pace = "auto": it follows the rule from now on, all begin at one clock.
  void follow(const std::string& rule);
  // From its next piece of work on.
  void set_iteration_us(uint32_t worker, TimeUs iteration_us);

  PaceFigures figures() const;
  const ClockTable& members() const { return table_; }
  const Pace& pace() const { return *pace_; }
  TimeUs now() const { return now_; }
  size_t held_count() const { return held_.size(); }
  // Workers are there and nobody computes: everybody waits for everybody.
  bool stuck() const { return !table_.empty() && busy_ == 0; }
  void set_observer(std::function<void(const PaceEvent&)> observer) {
    observer_ = std::move(observer);
  }

 private:
  enum class State : uint8_t { kAway, kBusy, kHeld, kWaiting };
  // One cache line: an event touches one of these, and a fleet may be large.
  struct alignas(64) Worker {
    TimeUs due = 0;    // when the piece in progress ends
    TimeUs began = 0;  // this iteration
    TimeUs piece_began = 0;
    TimeUs iteration_us = 0;
    uint64_t version = 0;  // that it computes on
    uint32_t pieces = 0;   // done in this iteration
    uint16_t pieces_minimum = 1;
    State state = State::kAway;
    bool unapplied = false;  // its update is held
    Random random{0, 0};
  };
  static_assert(sizeof(Worker) == 64);

  explicit PaceWorld(PaceWorldOptions options, std::unique_ptr<Pace> pace);

  void begin(uint32_t id);
  void begin_piece(uint32_t id);
  TimeUs draw_piece_us(Worker& worker);
  void finish_piece(uint32_t id);
  void push(uint32_t id);
  void discard(uint32_t id);
  void apply(uint32_t id, uint64_t version);
  void apply_held();
  void cut();
  void settle();
  void release(uint32_t id);
  void tell(PaceEvent::Kind kind, uint32_t id, uint64_t version) const {
    if (observer_) observer_({kind, now_, id, version});
  }
  uint32_t pieces_per_iteration() const { return pace_->elastic() ? kMicroBatches : 1; }

  static constexpr uint32_t kMicroBatches = 8;  // of an iteration, where the pace is elastic
  static constexpr uint32_t kIterationsMax = 1024;

  PaceWorldOptions options_;
  std::unique_ptr<Pace> pace_;
  ClockTable table_;
  std::vector<Worker> workers_;
  DueQueue queue_;  // may hold entries of work that was aborted: they match no worker's due time
  std::vector<uint64_t> clocks_away_;  // of who has left
  std::vector<uint32_t> held_;         // pushed, not applied
  std::vector<uint32_t> waiting_;      // settled, not released when last asked
  std::function<void(const PaceEvent&)> observer_;
  TimeUs now_ = 0;
  size_t busy_ = 0;
  uint64_t version_ = 0;
  // As they were when all that wait were asked last.
  uint64_t asked_smallest_ = 0;
  uint64_t asked_revision_ = 0;

  uint64_t pieces_ = 0;  // of finished iterations
  uint64_t pieces_discarded_ = 0;
  uint64_t closes_ = 0;
  uint64_t updates_ = 0;
  uint64_t events_ = 0;
  TimeUs busy_us_ = 0;
  uint64_t staleness_sum_ = 0;
  uint64_t staleness_max_ = 0;
  uint64_t lead_max_ = 0;
};

}  // namespace paceline
