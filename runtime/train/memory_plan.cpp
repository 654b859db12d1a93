#include "runtime/train/memory_plan.h"

#include <algorithm>

namespace paceline {

size_t MemoryPlan::add(uint64_t bytes, uint32_t first, uint32_t last) {
  bytes = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  buffers_.push_back({bytes, first, last, 0});
  return buffers_.size() - 1;
}

void MemoryPlan::place() {
  std::vector<Buffer*> by_size;
  for (Buffer& buffer : buffers_) by_size.push_back(&buffer);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Buffer* a, const Buffer* b) { return a->bytes > b->bytes; });
  std::vector<const Buffer*> placed;  // by offset
  for (Buffer* buffer : by_size) {
    buffer->offset = lowest_free_offset(*buffer, placed);
    total_bytes_ = std::max(total_bytes_, buffer->offset + buffer->bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), buffer,
                         [](const Buffer* a, const Buffer* b) { return a->offset < b->offset; }),
        buffer);
  }
}

uint64_t MemoryPlan::lowest_free_offset(const Buffer& buffer,
                                        const std::vector<const Buffer*>& placed) {
  uint64_t offset = 0;
  for (const Buffer* other : placed) {
    const bool alive_together = other->first <= buffer.last && buffer.first <= other->last;
    if (!alive_together || other->offset + other->bytes <= offset) continue;
    if (other->offset >= offset + buffer.bytes) break;
    offset = other->offset + other->bytes;
  }
  return offset;
}

}  // namespace paceline
