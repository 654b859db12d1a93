// ARFF, Weka's tables: a list of attributes in front of comma-separated rows.
//
// Source: I. H. Witten, E. Frank, "Data Mining" (Weka), the attribute-relation file format, 2002.
// A row's cells may stand in ' or ", where \ escapes; '?' is a missing value, '%' starts a comment
// line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct ArffAttribute {
  enum class Kind : uint8_t { kNumeric, kNominal, kText };
  std::string name;
  Kind kind = Kind::kNumeric;
  std::vector<std::string> values;  // of a nominal one, as declared
};

struct ArffTable {
  std::vector<ArffAttribute> attributes;
  size_t header_line = 0;  // of the last attribute
  std::string_view rows;   // the text behind "@data"
  size_t rows_line = 0;    // its first
};

// Whether the first line that is no comment is "@relation".
bool looks_like_arff(std::string_view text);

// Rows are not read. `text` must outlive the table. Errors, with the line: kCorrupt; kUnsupported
// for relational attributes and sparse rows; kResourceExhausted.
Result<ArffTable> parse_arff(std::string_view text);

}  // namespace paceline
