// Counts the heap allocations of a test program: link allocation_counter.cpp into it.
//
// Replaces operator new and delete, so everything of C++ is counted, not malloc() of C code.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::test {

struct AllocationCounts {
  uint64_t calls = 0;
  uint64_t live_bytes = 0;  // as asked for, without the allocator's own overhead
};

// Of all threads since the program's start.
AllocationCounts allocation_counts();

}  // namespace paceline::test
