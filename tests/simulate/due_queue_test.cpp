// The calendar against a sorted set.
#include <doctest/doctest.h>

#include <set>

#include "runtime/base/random.h"
#include "simulate/due_queue.h"
#include "tests/support/seed.h"

using namespace paceline;

TEST_SUITE("simulate/due_queue") {
  TEST_CASE("entries come out in order of time and worker, whatever their rate was said to be") {
    for (uint64_t run = 0; run < 300; ++run) {
      Random random(test::seed(), run);
      const size_t workers = 1 + static_cast<size_t>(random.below(40));
      const TimeUs longest = static_cast<TimeUs>(1) << random.below(30);
      // From far too often to far too seldom.
      const double guess = 1e6 / static_cast<double>(uint64_t{1} << random.below(36));
      DueQueue queue(workers, guess);
      std::multiset<std::pair<TimeUs, uint32_t>> entries;
      const auto add = [&](TimeUs now) {
        // Few different times among many entries: ties.
        const auto step = static_cast<TimeUs>(random.below(static_cast<uint64_t>(longest) / 3 + 2));
        const TimeUs due = now + (random.below(2) == 0 ? step * 3 : longest);
        const auto worker = static_cast<uint32_t>(random.below(workers));
        queue.push(due, worker);
        entries.emplace(due, worker);
      };
      for (uint64_t i = 0; i < workers; ++i) add(0);
      for (int step = 0; step < 2000 && !entries.empty(); ++step) {
        REQUIRE(queue.due() == entries.begin()->first);
        REQUIRE(queue.worker() == entries.begin()->second);
        const TimeUs now = queue.due();
        queue.pop();
        entries.erase(entries.begin());
        for (uint64_t more = random.below(3); more > 0; --more)
          if (entries.size() < 3 * workers) add(now);
        REQUIRE(queue.empty() == entries.empty());
      }
    }
  }
}
