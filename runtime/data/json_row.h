// One line of JSON as a row of a table: {"ax": 0.5, "state": "idle"}.
//
// Numbers, texts, true and false are cells; null and what is not there are empty ones. Objects and
// lists are no cells.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/csv_scanner.h"

namespace paceline {

bool looks_like_json(std::string_view line);

// The columns that `line` names, in its order. Errors: kCorrupt.
Result<std::vector<std::string>> json_columns(std::string_view line);

// The cells of `columns`, in their order; others are left out. They point into `line` and into
// the record. Errors: kCorrupt.
Status read_json_row(std::string_view line, const std::vector<std::string>& columns,
                     CsvRecord* record);

}  // namespace paceline
