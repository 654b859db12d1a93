// What every entry of paces.inc promises, whatever its rule.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/pace/pace.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

std::vector<PaceRow> random_rows(Random& random) {
  std::vector<PaceRow> rows(static_cast<size_t>(1 + random.below(6)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].worker_id = static_cast<uint32_t>(i);
    rows[i].clock = random.below(12);
    rows[i].ready = random.below(2) == 0;
    rows[i].held = random.below(2) == 0;
    rows[i].iteration_us = static_cast<TimeUs>(random.below(1'000'000));
    rows[i].loss = random.unit();
  }
  return rows;
}

ClockTable table_of(const std::vector<PaceRow>& rows) {
  ClockTable table;
  for (const PaceRow& row : rows) table.put(row);
  return table;
}

template <class Check>
void for_each_pace(Check check) {
  for (const PaceInfo& info : paces()) {
    INFO("pace " << std::string(info.name));
    const std::unique_ptr<Pace> pace = make_pace(info.name).value();
    check(*pace);
  }
}

}  // namespace

TEST_SUITE("contract/pace") {
  TEST_CASE("every pace is made from its bare name, is described and says why one waits") {
    CHECK(paces().size() >= 14);
    for (const PaceInfo& info : paces()) {
      const Result<std::unique_ptr<Pace>> pace = make_pace(info.name);
      REQUIRE(pace.has_value());
      CHECK(std::string(info.description).size() > 10);
      CHECK(std::string((*pace)->waiting_reason()).size() > 10);
    }
  }

  TEST_CASE("the example that a description gives is one that can be made") {
    size_t examples = 0;
    for (const PaceInfo& info : paces()) {
      const std::string text = info.description;
      for (size_t at = text.find(';'); at != std::string::npos && at < text.size();) {
        const size_t begin = text.find_first_not_of(" ;", at);
        at = std::min(text.find(", ", begin), text.size());
        CHECK_MESSAGE(make_pace(text.substr(begin, at - begin)).has_value(),
                      text.substr(begin, at - begin));
        ++examples;
        at = at == text.size() ? at : at + 1;
      }
    }
    CHECK(examples >= 8);
  }

  TEST_CASE("a parameter that makes no sense is refused, and the message shows the form") {
    for (const PaceInfo& info : paces()) {
      for (const char* nonsense :
           {":x", ":-1", ":+1", ": 3", ":3 ", ":3x", ":0x3", ":1e3", ":3:3", ":3,", ":,3", ":1,1,1",
            ":auto3", ":99999999999999999999", ":1000000", ":3,99999999"}) {
        const Result<std::unique_ptr<Pace>> pace = make_pace(std::string(info.name) + nonsense);
        INFO(std::string(info.name) << nonsense);
        REQUIRE_FALSE(pace.has_value());
        CHECK(pace.error().code() == Code::kInvalidArgument);
        CHECK(pace.error().message().find("\"" + std::string(info.name)) != std::string::npos);
      }
    }
  }

  TEST_CASE("an unknown name is refused with all the names there are, however long it is") {
    for (const std::string& name :
         {std::string("bps"), std::string(), std::string("+stale"), std::string(100'000, 'x')}) {
      const Result<std::unique_ptr<Pace>> pace = make_pace(name);
      REQUIRE_FALSE(pace.has_value());
      CHECK(pace.error().code() == Code::kInvalidArgument);
      CHECK(pace.error().message().size() < 400);
      for (const PaceInfo& info : paces())
        CHECK(pace.error().message().find(info.name) != std::string::npos);
    }
  }

  TEST_CASE("a single member is never blocked for good, and its update is always used") {
    for_each_pace([](Pace& pace) {
      ClockTable table;
      PaceRow row;
      table.put(row);
      pace.members_changed(table, 0);
      for (uint64_t clock = 1; clock < 100; ++clock) {
        const auto now = static_cast<TimeUs>(clock) * 1'000'000;
        row.ready = true;
        table.put(row);
        if (pace.elastic()) CHECK(pace.cuts(table));
        row.clock = clock;
        row.held = true;
        row.iteration_us = 1'000'000;
        table.put(row);
        pace.pushed(table, row, now);
        if (pace.apply() == Apply::kHold) CHECK(pace.closes(table));
        row.held = row.ready = false;
        table.put(row);
        if (pace.apply() == Apply::kHold) pace.closed(table, now);
        CHECK(pace.releases(table, row));
        CHECK(pace.iterations(0) >= 1);
      }
    });
  }

  TEST_CASE(
      "with every update held a holding pace closes; one that applies at once has no closes") {
    Random random(test::seed(), 1);
    for_each_pace([&](const Pace& pace) {
      for (int i = 0; i < 200; ++i) {
        std::vector<PaceRow> rows = random_rows(random);
        for (PaceRow& row : rows) row.held = true;
        const ClockTable table = table_of(rows);
        CHECK(pace.closes(table) == (pace.apply() == Apply::kHold));
        if (pace.elastic()) CHECK(pace.cuts(table));
      }
    });
  }

  TEST_CASE("an update that is held keeps its worker, where the pace holds") {
    Random random(test::seed(), 3);
    for_each_pace([&](const Pace& pace) {
      if (pace.apply() != Apply::kHold) return;
      for (int i = 0; i < 200; ++i) {
        const std::vector<PaceRow> rows = random_rows(random);
        const ClockTable table = table_of(rows);
        for (const PaceRow& row : rows)
          if (row.held) CHECK_FALSE(pace.releases(table, row));
      }
    });
  }

  TEST_CASE("answers do not depend on the order in which the table was filled") {
    Random random(test::seed(), 4);
    for_each_pace([&](const Pace& pace) {
      for (int i = 0; i < 500; ++i) {
        const std::vector<PaceRow> rows = random_rows(random);
        std::vector<PaceRow> mixed = rows;
        random.shuffle(std::span(mixed));
        const ClockTable table = table_of(rows), other = table_of(mixed);
        CHECK(pace.closes(table) == pace.closes(other));
        CHECK(pace.cuts(table) == pace.cuts(other));
        for (const PaceRow& row : rows)
          CHECK(pace.releases(table, row) == pace.releases(other, row));
      }
    });
  }

  TEST_CASE("a stale update weighs less and less, a fresh one all; never nothing") {
    for (const PaceInfo& info : paces()) {
      const std::unique_ptr<Pace> plain = make_pace(info.name).value();
      const std::unique_ptr<Pace> stale = make_pace(std::string(info.name) + "+stale").value();
      CHECK(plain->weight(0) == 1);
      CHECK(stale->weight(0) == 1);
      CHECK(stale->weight(4) == 0.25);
      double before = 1;
      for (uint64_t staleness = 1; staleness < 1'000'000'000'000; staleness *= 3) {
        CHECK(stale->weight(staleness) <= before);
        before = stale->weight(staleness);
        CHECK(before > 0);
        CHECK((plain->weight(staleness) == 1) == (std::string(info.name) != "fedbuff"));
      }
    }
    CHECK(make_pace("fedbuff").value()->weight(3) == 0.5);
  }
}
