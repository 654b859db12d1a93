#include "runtime/data/table_profile.h"

#include <doctest/doctest.h>

#include "tests/runtime/data/data_files.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::contains;
using test::TempFolder;

TableProfile profile_of(std::string_view text) {
  const TempFolder folder;
  Result<TableProfile> profile = profile_table(folder.write("t.csv", text));
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message());
  return std::move(*profile);
}

std::vector<ColumnKind> kinds_of(const TableProfile& table) {
  std::vector<ColumnKind> kinds;
  for (const ColumnProfile& column : table.columns) kinds.push_back(column.kind);
  return kinds;
}

}  // namespace

TEST_SUITE("data/table_profile") {
  TEST_CASE("kinds: numbers, words, times, counters and constants are told apart") {
    std::string text = "no,when,clock,x,room,unit,state\n";
    for (int i = 0; i < 40; ++i)
      text += format_text("%d,2015-02-04 17:%02d:00,18.%02d.00,%d.5,%s,C,%d\n", 7 + 3 * i, i, i,
                          i * 37 % 11, i % 3 == 0 ? "hall" : "shed", i % 2);
    const TableProfile table = profile_of(text);
    CHECK(table.row_count == 40);
    CHECK(kinds_of(table) == std::vector<ColumnKind>{ColumnKind::kCounter, ColumnKind::kTime,
                                                     ColumnKind::kTime, ColumnKind::kNumbers,
                                                     ColumnKind::kWords, ColumnKind::kConstant,
                                                     ColumnKind::kNumbers});
    CHECK(table.columns[4].distinct.at("hall") == 14);
    CHECK(table.columns[6].distinct.size() == 2);
  }

  TEST_CASE("numbers: mean and deviation are those of the cells that are there") {
    const TableProfile table = profile_of("a;b;y\n1,5;NA;0\n2,5;;1\n3,5;4;0\n4,5;6;1\n");
    const ColumnProfile& a = table.columns[0];
    CHECK(a.mean == 3);
    CHECK(a.deviation == doctest::Approx(1.118034).epsilon(1e-6));
    CHECK(a.lowest == 1.5);
    CHECK(a.highest == 4.5);
    CHECK(table.columns[1].mean == 5);
    CHECK(table.columns[1].missing_count == 2);
    CHECK(table.missing_row_count == 2);
    CHECK(table.missing_values == std::vector<std::string>{"", "NA"});
  }

  TEST_CASE("missing: -200 far outside of the other values is a code, in every column") {
    const TableProfile table =
        profile_of("t,p,y\n13.5,900,0\n-200,-200,1\n14,-200,0\n-200,1000,1\n12,300,0\n");
    CHECK(table.missing_values == std::vector<std::string>{"-200"});
    CHECK(table.columns[0].lowest == 12);
    CHECK(table.columns[1].lowest == 300);
    CHECK(table.missing_row_count == 3);
    // With decimal commas, too.
    CHECK(profile_of("t;p;y\n13,5;900;0\n-200,0;-200,0;1\n14;-200;0\n-200;1000;1\n12;300;0\n")
              .missing_row_count == 3);
    // Among its likes it is a number.
    CHECK(profile_of("t,y\n-200,0\n-210,1\n-200,0\n-150,0\n").missing_values.empty());
  }

  TEST_CASE("rows: odd ones are counted and leave the rest alone") {
    const TableProfile table = profile_of("a,y\n1,0\n2\n3,1\n\n");
    CHECK(table.row_count == 2);
    CHECK(table.odd_row_count == 1);
    const TempFolder folder;
    CHECK(contains(profile_table(folder.write("t.csv", "a,y\n")).error().message(), "no rows"));
  }
}

}  // namespace paceline
