// Workers, a clock of whole ticks and one Pace: every rule's timing without network, model or
// codec.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/pace/pace.h"

namespace paceline::test {

struct PaceFigures {
  uint64_t iterations = 0;    // mini-batches of applied updates
  uint64_t rounds = 0;        // closed ones
  double utilisation = 0;     // of the applied mini-batches' time in all boards' time
  double mean_staleness = 0;  // versions between an update's model and its application
  uint64_t lead_max = 0;      // of clocks, right after a push
};

class PaceWorld {
 public:
  // ticks  of one mini-batch, per worker; elastic paces work in eighths of it, so multiples of 8
  PaceWorld(const char* pace, std::vector<int64_t> ticks);

  // Until the clock has reached `until`, pushes at that instant included.
  void run(int64_t until);
  void remove(uint32_t worker);

  PaceFigures figures() const;
  // When each worker began each of its iterations.
  const std::vector<std::vector<int64_t>>& starts() const { return starts_; }
  // Nobody computes: everybody waits for everybody.
  bool stuck() const;

 private:
  struct Worker {
    PaceRow row;
    bool member = true;
    int64_t due = 0;     // when the unit in progress ends
    bool busy = false;   // computes
    uint32_t units = 0;  // done in this iteration
    uint64_t base = 0;   // version that it computes on
  };

  std::vector<PaceRow> rows() const;
  uint32_t units_minimum() const { return pace_->elastic() ? 8 : 1; }
  int64_t unit_ticks(size_t worker) const { return ticks_[worker] / units_minimum(); }
  void begin(Worker& worker);
  void begin_unit(Worker& worker);
  void finish_unit(Worker& worker);
  void push(Worker& worker);
  void apply(Worker& worker, uint64_t version);
  void settle();

  std::unique_ptr<Pace> pace_;
  std::vector<int64_t> ticks_;
  std::vector<Worker> workers_;
  std::vector<std::vector<int64_t>> starts_;
  int64_t now_ = 0;
  uint64_t version_ = 0;
  uint64_t rounds_ = 0;
  uint64_t units_applied_ = 0;
  int64_t busy_ticks_ = 0;
  uint64_t updates_ = 0;
  uint64_t staleness_sum_ = 0;
  uint64_t lead_max_ = 0;
};

}  // namespace paceline::test
