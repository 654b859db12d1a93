// Who is due next: entries of (time, worker), the earlier first, at equal times the lower worker.
//
// A calendar (Brown, CACM 1988): a ring of buckets, each for a short stretch of time, holds
// unsorted lists; only the bucket whose time has come is sorted. So an entry costs about the same
// in a fleet of ten and of ten thousand, where a heap has twice the levels, and misses the cache at
// each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/clock.h"

namespace paceline {

class DueQueue {
 public:
  static constexpr uint32_t kWorkersMax = 1u << 20;
  static constexpr TimeUs kTimeMax = TimeUs{1} << 43;  // 101 days

  // For about `entries` at a time, of which `per_second` fall due; a wrong guess costs time only.
  DueQueue(size_t entries, double per_second);

  bool empty() const { return size_ == 0; }
  // Of the first entry; not for an empty queue.
  TimeUs due() { return static_cast<TimeUs>(first() / kWorkersMax); }
  uint32_t worker() { return static_cast<uint32_t>(first() % kWorkersMax); }
  void pop();
  // The worker after the first, if that is known without a search; the first otherwise.
  uint32_t next_worker() const {
    return static_cast<uint32_t>(current_[current_.size() < 2 ? 0 : current_.size() - 2] %
                                 kWorkersMax);
  }
  // Not before the last entry that was looked at.
  void push(TimeUs due, uint32_t worker);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // Time above worker: one comparison orders two entries.
  struct Node {
    uint64_t entry = 0;
    uint32_t next = kNone;
  };

  uint64_t first() {
    if (current_.empty()) collect();
    return current_.back();
  }
  uint64_t stretch_of(uint64_t entry) const { return (entry / kWorkersMax) >> width_log2_; }
  void link(uint32_t node);
  void collect();
  void widen();

  unsigned width_log2_ = 0;        // of a bucket's time, in us
  uint64_t stretch_ = 0;           // whose bucket is current
  std::vector<uint32_t> buckets_;  // first node of each; a power of two many
  std::vector<Node> nodes_;
  uint32_t free_ = kNone;
  std::vector<uint64_t> current_;  // entries of the current stretch, the first at the end
  size_t size_ = 0;
  // Since the width was set: how many empty buckets it took to find so many entries.
  uint64_t passed_ = 0, found_ = 0;
};

}  // namespace paceline
