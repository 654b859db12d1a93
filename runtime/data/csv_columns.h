// Which column of a file is what: by the file alone, or by the names that a run gives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/data/csv_scanner.h"
#include "runtime/data/reader.h"

namespace paceline {

enum class ColumnRole : uint8_t { kFeature, kLabel, kIgnored, kUnnamed };

struct TableColumns {
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Column {
    std::string name;  // empty: it has none, and may hold nothing
    ColumnRole role = ColumnRole::kIgnored;
    uint32_t feature = kNone;  // its place in the model's order
  };
  std::vector<Column> columns;             // in the file's order
  std::vector<std::string> feature_names;  // in the model's order
  uint32_t label_index = kNone;            // in `columns`; none only where options let it be
  uint32_t time_index = kNone;             // in `columns`; none where the run names no time
  std::vector<std::string> notes;          // what a person should know of the choice
};

struct TableHeader {
  std::vector<std::string> names;
  size_t line = 0;
  bool has_row_names = false;  // its first name is empty, and what stands below it means nothing
  std::vector<std::string> notes;
};

// Reads up to the first row: the line of names, or the last comment before the rows if they begin
// at once and it has as many cells. A row-name column, as R writes it, gets the empty name and is
// noted. Errors: kInvalidArgument where there are no names; kCorrupt for ones that are repeated,
// numbers or not UTF-8.
Result<TableHeader> read_table_header(CsvScanner* scanner);

// Errors: kNotFound naming the column and the nearest one that is there.
Result<TableColumns> find_columns(const TableHeader& header, const ReadOptions& options);

}  // namespace paceline
