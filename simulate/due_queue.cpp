#include "simulate/due_queue.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "runtime/base/check.h"

namespace paceline {

namespace {
constexpr uint32_t kEntriesPerBucket = 8;
constexpr uint64_t kPassedPerFoundMax = 1;  // buckets, when there should be an eighth
}  // namespace

DueQueue::DueQueue(size_t entries, double per_second) {
  // A ring that is about four times as long as it takes for all entries to fall due once.
  const double us_per_bucket =
      std::clamp(kEntriesPerBucket * 1e6 / std::max(per_second, 1e-6), 1.0, 0x1p40);
  width_log2_ = static_cast<unsigned>(std::bit_width(static_cast<uint64_t>(us_per_bucket)) - 1);
  buckets_.assign(std::bit_ceil(std::max<size_t>(4 * entries / kEntriesPerBucket, 64)), kNone);
}

void DueQueue::link(uint32_t node) {
  uint32_t& first =
      buckets_[static_cast<size_t>(stretch_of(nodes_[node].entry)) & (buckets_.size() - 1)];
  nodes_[node].next = first;
  first = node;
}

void DueQueue::push(TimeUs due, uint32_t worker) {
  PACELINE_CHECK(due >= 0 && due < kTimeMax && worker < kWorkersMax);
  const uint64_t entry = static_cast<uint64_t>(due) * kWorkersMax + worker;
  ++size_;
  if (stretch_of(entry) <= stretch_) {
    // The bucket that is being emptied.
    current_.insert(std::ranges::upper_bound(current_, entry, std::greater<>()), entry);
    return;
  }
  uint32_t node = free_;
  if (node == kNone) {
    node = static_cast<uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_ = nodes_[node].next;
  }
  nodes_[node].entry = entry;
  link(node);
}

void DueQueue::pop() {
  first();
  current_.pop_back();
  --size_;
}

// Moves on to the next bucket that has entries of its own stretch, and sorts them.
void DueQueue::collect() {
  PACELINE_CHECK(size_ > 0);
  while (current_.empty()) {
    ++stretch_;
    ++passed_;
    uint32_t* place = &buckets_[static_cast<size_t>(stretch_) & (buckets_.size() - 1)];
    while (*place != kNone) {
      Node& node = nodes_[*place];
      if (stretch_of(node.entry) != stretch_) {
        place = &node.next;  // of a later turn of the ring
        continue;
      }
      current_.push_back(node.entry);
      const uint32_t taken = *place;
      *place = node.next;
      node.next = free_;
      free_ = taken;
    }
    if (passed_ > kPassedPerFoundMax * found_ + 8 * buckets_.size()) widen();
  }
  found_ += current_.size();
  std::ranges::sort(current_, std::greater<>());
}

// Most buckets are empty: the fleet has become slower, or smaller.
void DueQueue::widen() {
  passed_ = found_ = 0;
  if (width_log2_ >= 40) return;
  std::vector<uint32_t> linked;
  for (uint32_t& first : buckets_)
    for (; first != kNone; first = nodes_[first].next) linked.push_back(first);
  ++width_log2_;
  // The next stretch that is looked at is the one that has what would have been looked at next.
  stretch_ = (stretch_ + 1) / 2 - 1;
  for (const uint32_t node : linked) link(node);
}

}  // namespace paceline
