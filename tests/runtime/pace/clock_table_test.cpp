// The table against a plain list that is searched anew for every answer.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runtime/base/random.h"
#include "runtime/pace/clock_table.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

// What the table says, counted by hand.
void check_same(const ClockTable& table, const std::map<uint32_t, PaceRow>& rows, uint64_t bound) {
  size_t held = 0, ready_or_held = 0;
  uint64_t smallest = rows.empty() ? 0 : UINT64_MAX, largest = 0;
  for (const auto& [id, row] : rows) {
    held += row.held ? 1 : 0;
    ready_or_held += row.held || row.ready ? 1 : 0;
    smallest = std::min(smallest, row.clock);
    largest = std::max(largest, row.clock);
  }
  ClockTable::Within within;
  for (const auto& [id, row] : rows) {
    if (row.clock - smallest > bound) continue;
    ++within.members;
    within.held += row.held ? 1 : 0;
  }
  REQUIRE(table.size() == rows.size());
  REQUIRE(table.held_count() == held);
  REQUIRE(table.ready_or_held_count() == ready_or_held);
  REQUIRE(table.smallest_clock() == smallest);
  REQUIRE(table.largest_clock() == largest);
  REQUIRE(table.within(bound).members == within.members);
  REQUIRE(table.within(bound).held == within.held);
  if (rows.empty()) return;
  const auto first = std::ranges::min_element(
      rows, {}, [](const auto& entry) { return std::pair(entry.second.clock, entry.first); });
  REQUIRE(table.slowest() == first->second);
  auto next = rows.begin();
  table.for_each([&](const PaceRow& row) { REQUIRE(row == (next++)->second); });
}

}  // namespace

TEST_SUITE("pace/clock_table") {
  TEST_CASE("whatever joins, moves and leaves, every answer is that of a search") {
    for (uint64_t run = 0; run < 300; ++run) {
      Random random(test::seed(), run);
      ClockTable table;
      std::map<uint32_t, PaceRow> rows;
      const uint64_t ids = 1 + random.below(12);
      // Mostly one bound, as a pace asks; sometimes another one between.
      const uint64_t bound = random.below(5);
      for (int step = 0; step < 200; ++step) {
        const auto id = static_cast<uint32_t>(random.below(ids));
        if (random.below(10) == 0) {
          REQUIRE(table.remove(id) == (rows.erase(id) == 1));
        } else {
          PaceRow row = rows.contains(id) ? rows[id] : PaceRow{};
          row.worker_id = id;
          // Forward by a step mostly; a table that was loaded anew may also go back.
          row.clock = random.below(20) == 0 ? random.below(10) : row.clock + random.below(2);
          row.ready = random.below(2) == 0;
          row.held = random.below(2) == 0;
          REQUIRE(table.put(row) == !rows.contains(id));
          rows[id] = row;
        }
        if (random.below(3) != 0) check_same(table, rows, bound);
        if (random.below(9) == 0) check_same(table, rows, random.below(5));
      }
    }
  }

  TEST_CASE("who is no member is not found, whatever its number") {
    ClockTable table;
    CHECK(table.find(0) == nullptr);
    CHECK_FALSE(table.remove(7));
    PaceRow row;
    row.worker_id = 3;
    CHECK(table.put(row));
    CHECK_FALSE(table.put(row));
    CHECK(table.find(2) == nullptr);
    CHECK(table.find(4'000'000'000) == nullptr);
    CHECK(table.remove(3));
    CHECK(table.find(3) == nullptr);
    CHECK(table.empty());
  }
}
