// What every entry of paces.inc promises, whatever its rule.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "runtime/base/random.h"
#include "runtime/pace/pace.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

std::vector<PaceRow> random_table(Random& random) {
  std::vector<PaceRow> rows(static_cast<size_t>(1 + random.below(6)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].worker_id = static_cast<uint32_t>(i);
    rows[i].clock = random.below(12);
    rows[i].ready = random.below(2) == 0;
    rows[i].held = random.below(2) == 0;
  }
  return rows;
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
    CHECK(paces().size() >= 4);
    for (const PaceInfo& info : paces()) {
      const Result<std::unique_ptr<Pace>> pace = make_pace(info.name);
      REQUIRE(pace.has_value());
      CHECK(std::string(info.description).size() > 10);
      CHECK(std::string((*pace)->waiting_reason()).size() > 10);
    }
  }

  TEST_CASE("a parameter that makes no sense is refused, and the message shows the form") {
    for (const PaceInfo& info : paces()) {
      for (const char* nonsense : {":x", ":-1", ":+1", ": 3", ":3 ", ":3x", ":0x3", ":1e3", ":3:3",
                                   ":99999999999999999999", ":1000000"}) {
        const Result<std::unique_ptr<Pace>> pace = make_pace(std::string(info.name) + nonsense);
        REQUIRE_FALSE(pace.has_value());
        CHECK(pace.error().code() == Code::kInvalidArgument);
        CHECK(pace.error().message().find("\"" + std::string(info.name)) != std::string::npos);
      }
    }
  }

  TEST_CASE("an unknown name is refused with all the names there are, however long it is") {
    for (const std::string& name : {std::string("bps"), std::string(), std::string(100'000, 'x')}) {
      const Result<std::unique_ptr<Pace>> pace = make_pace(name);
      REQUIRE_FALSE(pace.has_value());
      CHECK(pace.error().code() == Code::kInvalidArgument);
      CHECK(pace.error().message().size() < 300);
      for (const PaceInfo& info : paces())
        CHECK(pace.error().message().find(info.name) != std::string::npos);
    }
  }

  TEST_CASE("a single member is never blocked, and its update is always used") {
    for_each_pace([](const Pace& pace) {
      for (uint64_t clock = 0; clock < 100; ++clock) {
        PaceRow row{0, clock, true, false};
        if (pace.elastic()) CHECK(pace.cuts({&row, 1}));
        row.held = true;
        if (pace.apply() == Apply::kHold) CHECK(pace.closes({&row, 1}));
        row.held = row.ready = false;
        CHECK(pace.releases({&row, 1}, row));
      }
    });
  }

  TEST_CASE(
      "with every update held a holding pace closes; one that applies at once has no rounds") {
    Random random(test::seed(), 1);
    for_each_pace([&](const Pace& pace) {
      for (int i = 0; i < 200; ++i) {
        std::vector<PaceRow> rows = random_table(random);
        for (PaceRow& row : rows) row.held = true;
        CHECK(pace.closes(rows) == (pace.apply() == Apply::kHold));
        if (pace.elastic()) CHECK(pace.cuts(rows));
      }
    });
  }

  TEST_CASE("somebody always goes on: the slowest whose update is settled is released") {
    Random random(test::seed(), 2);
    for_each_pace([&](const Pace& pace) {
      for (int i = 0; i < 500; ++i) {
        const std::vector<PaceRow> rows = random_table(random);
        PaceRow slowest = *std::ranges::min_element(rows, {}, &PaceRow::clock);
        slowest.held = false;
        CHECK(pace.releases(rows, slowest));
      }
    });
  }

  TEST_CASE("an update that is held keeps its worker, where the pace holds") {
    Random random(test::seed(), 3);
    for_each_pace([&](const Pace& pace) {
      if (pace.apply() != Apply::kHold) return;
      for (int i = 0; i < 200; ++i)
        for (const std::vector<PaceRow> rows = random_table(random); const PaceRow& row : rows)
          CHECK(pace.releases(rows, row) == !row.held);
    });
  }

  TEST_CASE("answers do not depend on the order of the table, and a leaver only loosens them") {
    Random random(test::seed(), 4);
    for_each_pace([&](const Pace& pace) {
      for (int i = 0; i < 500; ++i) {
        const std::vector<PaceRow> rows = random_table(random);
        std::vector<PaceRow> mixed = rows;
        random.shuffle(std::span(mixed));
        CHECK(pace.closes(rows) == pace.closes(mixed));
        CHECK(pace.cuts(rows) == pace.cuts(mixed));
        for (const PaceRow& row : rows) {
          CHECK(pace.releases(rows, row) == pace.releases(mixed, row));
          if (rows.size() < 2) continue;
          std::vector<PaceRow> fewer = rows;
          std::erase_if(fewer, [&](const PaceRow& r) { return r.worker_id != row.worker_id; });
          // Alone in the table: what all allowed is still allowed.
          if (pace.closes(rows)) CHECK(pace.closes(fewer));
          if (pace.cuts(rows)) CHECK(pace.cuts(fewer));
          if (pace.releases(rows, row)) CHECK(pace.releases(fewer, row));
        }
      }
    });
  }
}
