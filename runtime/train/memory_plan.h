// Where buffers lie in one arena, so that buffers which are never alive at once share memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// Greedy by size (Pisarchyk and Lee 2020, arXiv:2001.03288): the largest buffer first, each at the
// lowest offset that is free over its whole life.
class MemoryPlan {
 public:
  // Buffers start at multiples of this: a cache line, and a vector of every CPU here.
  static constexpr size_t kAlignmentBytes = 64;

  // A buffer that is in use from step `first` to step `last`, both included. Returns its index.
  size_t add(uint64_t bytes, uint32_t first, uint32_t last);
  // Fixes all offsets; nothing is added afterwards.
  void place();

  uint64_t offset(size_t index) const { return buffers_[index].offset; }
  // More than a 32-bit size_t if such was asked for: check before allocating.
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  struct Buffer {
    uint64_t bytes = 0;
    uint32_t first = 0;
    uint32_t last = 0;
    uint64_t offset = 0;
  };
  // `placed` by offset.
  static uint64_t lowest_free_offset(const Buffer& buffer,
                                     const std::vector<const Buffer*>& placed);

  std::vector<Buffer> buffers_;
  uint64_t total_bytes_ = 0;
};

}  // namespace paceline
