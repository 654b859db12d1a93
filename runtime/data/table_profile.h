// What a table holds, column by column: what somebody has to know who proposes a run for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/reader.h"

namespace paceline {

enum class ColumnKind : uint8_t {
  kNumbers,
  kWords,
  kTime,      // dates or times, as text or as seconds since 1970 in some unit
  kCounter,   // numbers that rise or fall with every row: a time or a serial number
  kConstant,  // one value, or none
};

struct ColumnProfile {
  // Beyond so many different cells a column is no list of classes.
  static constexpr size_t kDistinctMax = 256;

  std::string name;
  ColumnKind kind = ColumnKind::kNumbers;
  size_t missing_count = 0;
  size_t odd_count = 0;  // cells of a column of numbers that are none
  // Of its numbers, without the missing ones; the deviation is that of the whole sample.
  double lowest = 0, highest = 0, mean = 0, deviation = 0;
  // Of times that time_text.h reads and that go on from row to row: the usual step; 0: none.
  double interval_s = 0;
  const char* time_unit = "s";  // of ones that are numbers, as a run names it
  // Cell -> rows; the missing ones left out. Cut off at kDistinctMax + 1.
  std::map<std::string, size_t> distinct;
  bool few_distinct() const { return distinct.size() <= kDistinctMax; }
};

struct TableProfile {
  size_t row_count = 0;                     // with content
  size_t odd_row_count = 0;                 // with too few or too many cells; not counted elsewhere
  size_t missing_row_count = 0;             // with a missing value in some column
  std::vector<ColumnProfile> columns;       // the named ones
  std::vector<std::string> missing_values;  // what stands for missing values here
  std::vector<std::string> notes;
  std::string label;  // where the table says it: of ARFF the last attribute, or the one asked for
};

//   options  of ARFF the label, which stays one column, and what is left out
// Errors: those of reading a table's header; kInvalidArgument for a table without rows.
Result<TableProfile> profile_table(const std::string& path, const ReadOptions& options = {});

}  // namespace paceline
