#include "runtime/train/memory_plan.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/random.h"
#include "tests/support/seed.h"

namespace paceline {

TEST_SUITE_BEGIN("train/memory_plan");

TEST_CASE("place: buffers alive at once never overlap, and the total lies between its bounds") {
  struct Life {
    size_t bytes;
    uint32_t first, last;
  };
  Random random(test::seed(), 1);
  for (int round = 0; round < 100; ++round) {
    MemoryPlan plan;
    std::vector<Life> lives;
    size_t sum = 0;
    for (uint64_t i = random.below(30) + 1; i > 0; --i) {
      const auto first = static_cast<uint32_t>(random.below(20));
      const auto last = first + static_cast<uint32_t>(random.below(20));
      lives.push_back({static_cast<size_t>(random.below(5000)), first, last});
      CHECK(plan.add(lives.back().bytes, first, last) == lives.size() - 1);
      sum += (lives.back().bytes + 63) / 64 * 64;
    }
    plan.place();
    size_t most_alive = 0;
    for (uint32_t step = 0; step < 40; ++step) {
      size_t alive = 0;
      for (const Life& life : lives)
        if (life.first <= step && step <= life.last) alive += life.bytes;
      most_alive = std::max(most_alive, alive);
    }
    REQUIRE(plan.total_bytes() >= most_alive);
    REQUIRE(plan.total_bytes() <= sum);
    for (size_t a = 0; a < lives.size(); ++a) {
      REQUIRE(plan.offset(a) % MemoryPlan::kAlignmentBytes == 0);
      REQUIRE(plan.offset(a) + lives[a].bytes <= plan.total_bytes());
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool apart = plan.offset(a) + lives[a].bytes <= plan.offset(b) ||
                           plan.offset(b) + lives[b].bytes <= plan.offset(a);
        if (together && !apart) FAIL("buffers ", a, " and ", b, " overlap");
      }
    }
  }
}

TEST_CASE("place: buffers that follow each other share memory") {
  MemoryPlan plan;
  for (uint32_t step = 0; step < 10; ++step) plan.add(1024, step, step);
  plan.place();
  CHECK(plan.total_bytes() == 1024);
}

TEST_SUITE_END();

}  // namespace paceline
