// Turns one record of a table into the model's inputs, or says what is wrong with it.
//
// Stated rules: a feature cell must be a decimal number that fits float32; text, NaN, an infinity,
// a hexadecimal or 1_000 is a fault with its place, never a guess. Where ';' separates, the decimal
// mark may be a comma, but a file has only one of the two. What stands for a missing value is the
// run's to say. Unnamed columns may exist as long as they are empty.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/csv_columns.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/schema.h"

namespace paceline {

struct RowFault {
  enum class Kind : uint8_t {
    kBad,      // a cell that is no number, or too few or too many cells
    kMissing,  // a feature or the label is missing
  };
  Kind kind;
  std::string text;  // goes after "row 3 (line 4)": ", column 'b': 'x' is not a number"
};

class RowReader {
 public:
  // `schema` null: there are no missing values, an empty cell is a fault. With `label_needed` a row
  // without a label is one, too.
  RowReader(TableColumns columns, char separator, const DataSchema* schema,
            bool label_needed = true);

  size_t feature_count() const { return columns_.feature_names.size(); }
  const TableColumns& columns() const { return columns_; }
  bool has_label() const { return columns_.label_index != TableColumns::kNone; }
  uint64_t replaced_count() const { return replaced_count_; }  // values, by their column's mean

  // Writes a record's features, in the model's order and before scaling, to `features`
  // [feature_count()]; on a fault they are of no use.
  std::optional<RowFault> read(const CsvRecord& record, std::span<float> features);
  // Of the record that read() took last: the label where it is a number; nullopt where there is
  // none, as a label that is not needed may be missing or no number.
  std::optional<float> label_number() const { return label_number_; }
  // Of the record that read() took last, where the run names a column of times.
  std::optional<double> time_s() const { return time_s_; }
  // Of a record that read() took.
  std::string_view label(const CsvRecord& record) const {
    return record.cells[columns_.label_index];
  }
  RowFault fault(const CsvRecord& record, size_t column, const std::string& reason) const;

 private:
  // A mean stands for no label.
  std::optional<RowFault> read_number(const CsvRecord& record, size_t column, bool as_label,
                                      float* value);
  std::optional<RowFault> read_label(const CsvRecord& record);
  std::optional<RowFault> read_time(const CsvRecord& record);
  RowFault not_a_number(const CsvRecord& record, size_t column) const;
  std::optional<RowFault> check_mark(const CsvRecord& record, size_t column, size_t mark);
  bool is_missing_text(std::string_view cell) const;
  RowFault wrong_count(const CsvRecord& record) const;

  TableColumns columns_;
  bool comma_allowed_;
  bool label_needed_;
  bool label_is_number_ = false;
  bool label_is_feature_ = false;
  std::optional<float> label_number_;
  double time_unit_s_ = 1;
  std::optional<double> time_s_;
  char decimal_mark_ = 0;  // once one was seen
  std::string with_point_;
  MissingRule missing_ = MissingRule::kError;
  std::vector<std::string> missing_texts_;
  std::vector<float> missing_numbers_;
  std::vector<float> means_;
  uint64_t replaced_count_ = 0;
};

}  // namespace paceline
