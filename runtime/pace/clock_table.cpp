#include "runtime/pace/clock_table.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline {

// `by` is 1, or the largest size_t to take away one.
void ClockTable::count(const PaceRow& row, size_t by) {
  if (row.held) held_ += by;
  if (row.held || row.ready) ready_or_held_ += by;
  if (within_known_ && lead(row) <= within_lead_) {
    within_.members += by;
    if (row.held) within_.held += by;
  }
}

bool ClockTable::put(const PaceRow& row) {
  PACELINE_CHECK(is_member(row));
  if (row.worker_id >= rows_.size())
    rows_.resize(size_t{row.worker_id} + 1, {.worker_id = kNobody});
  PaceRow& own = rows_[row.worker_id];
  const bool joined = !is_member(own);
  if (joined) {
    ++size_;
  } else {
    count(own, SIZE_MAX);
    if (own.clock == largest_ && row.clock < own.clock) largest_known_ = false;
  }
  own = row;
  count(row, 1);
  largest_ = std::max(largest_, row.clock);
  if (size_ == 1 || row.clock <= smallest_) {
    lower_to(row);
  } else if (row.worker_id == slowest_) {
    find_slowest();
  }
  return joined;
}

bool ClockTable::remove(uint32_t worker_id) {
  if (find(worker_id) == nullptr) return false;
  PaceRow& row = rows_[worker_id];
  count(row, SIZE_MAX);
  if (row.clock == largest_) largest_known_ = false;
  row.worker_id = kNobody;
  --size_;
  if (worker_id == slowest_) find_slowest();
  return true;
}

void ClockTable::lower_to(const PaceRow& row) {
  if (size_ > 1 && row.clock == smallest_) {
    slowest_ = std::min(slowest_, row.worker_id);
    return;
  }
  smallest_ = row.clock;
  slowest_ = row.worker_id;
  within_known_ = false;
  // Alone, it is the largest, too.
  if (size_ == 1) largest_known_ = false;
}

void ClockTable::find_slowest() {
  for (uint32_t i = slowest_ + 1; i < rows_.size(); ++i) {
    if (!is_member(rows_[i]) || rows_[i].clock != smallest_) continue;
    slowest_ = i;
    return;
  }
  within_known_ = false;
  slowest_ = 0;
  smallest_ = size_ == 0 ? 0 : UINT64_MAX;
  for (uint32_t i = 0; i < rows_.size(); ++i) {
    if (!is_member(rows_[i]) || rows_[i].clock >= smallest_) continue;
    smallest_ = rows_[i].clock;
    slowest_ = i;
  }
}

const PaceRow& ClockTable::slowest() const {
  PACELINE_CHECK(size_ > 0);
  return rows_[slowest_];
}

uint64_t ClockTable::largest_clock() const {
  if (!largest_known_) {
    largest_ = 0;
    for_each([&](const PaceRow& row) { largest_ = std::max(largest_, row.clock); });
    largest_known_ = true;
  }
  return largest_;
}

ClockTable::Within ClockTable::within(uint64_t lead_max) const {
  if (!within_known_ || within_lead_ != lead_max) {
    within_lead_ = lead_max;
    within_ = {};
    for_each([&](const PaceRow& row) {
      if (lead(row) > lead_max) return;
      ++within_.members;
      if (row.held) ++within_.held;
    });
    within_known_ = true;
  }
  return within_;
}

}  // namespace paceline
