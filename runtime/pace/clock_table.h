// The members of a fleet as a pace sees them, with what the rules ask for at hand: the smallest and
// the largest clock, how many updates are held, how many members are within a lead.
//
// Cost: constant for a change and for a question, on average over a run. The table is scanned when
// the last member leaves the smallest clock, and between two such scans every member has pushed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/clock.h"

namespace paceline {

// One worker as a pace sees it.
struct PaceRow {
  uint32_t worker_id = 0;
  bool ready = false;       // elastic paces: it has its minimum of this round
  bool held = false;        // its update waits for a close
  uint64_t clock = 0;       // finished iterations since it joined, on top of the slowest's it met
  TimeUs iteration_us = 0;  // computing time of its last iteration; 0: not measured yet
  double loss = 0;          // mean training loss of its last update; 0: not reported
  bool operator==(const PaceRow&) const = default;
};

class ClockTable {
 public:
  // Rows are kept by worker id, so ids are small and dense; the caller bounds them.
  // True: the worker was no member before.
  bool put(const PaceRow& row);
  // True: it was one.
  bool remove(uint32_t worker_id);
  // Null: not a member. Valid until the next put() of a new worker.
  const PaceRow* find(uint32_t worker_id) const {
    return worker_id < rows_.size() && is_member(rows_[worker_id]) ? &rows_[worker_id] : nullptr;
  }

  // Says that the worker will be asked for soon.
  void prefetch(uint32_t worker_id) const {
    if (worker_id < rows_.size()) __builtin_prefetch(&rows_[worker_id]);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  size_t held_count() const { return held_; }
  size_t ready_or_held_count() const { return ready_or_held_; }
  // 0 for an empty table.
  uint64_t smallest_clock() const { return smallest_; }
  uint64_t largest_clock() const;
  // Of the members at the smallest clock the one with the lowest id. Not for an empty table.
  const PaceRow& slowest() const;
  uint64_t lead(const PaceRow& row) const {
    return row.clock > smallest_ ? row.clock - smallest_ : 0;
  }

  struct Within {
    size_t members = 0;  // whose lead over the slowest is at most the bound
    size_t held = 0;     // of these: whose update waits for a close
  };
  // Cheap while one pace asks for one bound; the bound of the last question is kept up to date.
  Within within(uint64_t lead_max) const;

  // In worker-id order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const PaceRow& row : rows_)
      if (is_member(row)) visit(row);
  }

 private:
  // Rows of those who are no members carry this id.
  static constexpr uint32_t kNobody = UINT32_MAX;
  static bool is_member(const PaceRow& row) { return row.worker_id != kNobody; }

  void count(const PaceRow& row, size_t by);
  void lower_to(const PaceRow& row);
  void find_slowest();

  std::vector<PaceRow> rows_;  // by worker id
  size_t size_ = 0;
  size_t held_ = 0;
  size_t ready_or_held_ = 0;
  uint64_t smallest_ = 0;
  uint32_t slowest_ = 0;  // no member before it is at the smallest clock
  mutable uint64_t largest_ = 0;
  mutable bool largest_known_ = true;
  mutable uint64_t within_lead_ = 0;
  mutable bool within_known_ = false;
  mutable Within within_;
};

}  // namespace paceline
