// A text table at its first row, whatever its kind: CSV, or ARFF, whose words become columns.
//
// A nominal attribute of ARFF becomes one column for each value, "outlook=sunny", 1 where it stands
// and 0 elsewhere; unless it is the label, its values are numbers, or somebody names it as it is.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/arff.h"
#include "runtime/data/csv_columns.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/reader.h"
#include "runtime/data/row_reader.h"

namespace paceline {

class TextTable {
 public:
  // Reads up to the first row. `text` must outlive the table. Errors: those of CsvScanner::make(),
  // read_table_header() and parse_arff(); kUnsupported for attributes that are neither numbers nor
  // nominal and that nobody leaves out.
  static Result<TextTable> open(std::string_view text, const ReadOptions& options);

  const TableHeader& header() const { return header_; }
  CsvScanner& scanner() { return scanner_; }
  bool is_arff() const { return !attributes_.empty(); }
  // The label where ARFF declares its values: these, as declared.
  const std::vector<std::string>& classes() const { return classes_; }
  // The attribute that is kept as the label; empty for CSV.
  const std::string& label() const { return label_; }

  // Makes columns of the cells that the scanner gave. A fault: the row can't be used.
  std::optional<RowFault> spread(CsvRecord* record) const;

 private:
  struct Attribute {
    std::string name;
    std::vector<std::string> values;  // none: its cell is taken as it is
  };

  explicit TextTable(CsvScanner scanner) : scanner_(std::move(scanner)) {}
  Status take_attributes(ArffTable table, const ReadOptions& options);

  CsvScanner scanner_;
  TableHeader header_;
  std::vector<Attribute> attributes_;
  std::vector<std::string> classes_;
  std::string label_;
};

}  // namespace paceline
