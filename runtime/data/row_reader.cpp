#include "runtime/data/row_reader.h"

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"
#include "runtime/data/time_text.h"

namespace paceline {

namespace {

size_t find_mark(std::string_view cell) {
  for (size_t i = 0; i < cell.size(); ++i)
    if (cell[i] == '.' || cell[i] == ',') return i;
  return std::string_view::npos;
}

}  // namespace

RowReader::RowReader(TableColumns columns, char separator, const DataSchema* schema,
                     bool label_needed)
    : columns_(std::move(columns)), comma_allowed_(separator == ';'), label_needed_(label_needed) {
  if (schema == nullptr) return;
  label_is_number_ = schema->label_is_number();
  label_is_feature_ =
      has_label() && columns_.columns[columns_.label_index].role == ColumnRole::kFeature;
  time_unit_s_ = schema->windows.time_unit_s;
  missing_ = schema->missing;
  missing_texts_ = schema->missing_values;
  for (const std::string& text : missing_texts_)
    if (const std::optional<float> number = parse_float32(text))
      missing_numbers_.push_back(*number);
  if (missing_ != MissingRule::kMean) return;
  for (size_t i = 0; i < feature_count(); ++i)
    means_.push_back(-schema->offset[i] / schema->scale[i]);
}

std::optional<RowFault> RowReader::read(const CsvRecord& record, std::span<float> features) {
  if (record.cells.size() != columns_.columns.size()) return wrong_count(record);
  // Most cells of most files: a number, and nothing to compare it with.
  const bool plain = !comma_allowed_ && missing_numbers_.empty();
  for (size_t i = 0; i < record.cells.size(); ++i) {
    const TableColumns::Column& column = columns_.columns[i];
    switch (column.role) {
      case ColumnRole::kIgnored:
        break;
      case ColumnRole::kUnnamed:
        if (!record.cells[i].empty()) return fault(record, i, "stands in a column without a name");
        break;
      case ColumnRole::kLabel:
        if (std::optional<RowFault> wrong = read_label(record)) return wrong;
        break;
      case ColumnRole::kFeature:
        if (plain) {
          if (const std::optional<float> number = parse_float32(record.cells[i])) {
            features[column.feature] = *number;
            break;
          }
        }
        if (std::optional<RowFault> wrong =
                read_number(record, i, false, &features[column.feature]))
          return wrong;
        break;
    }
  }
  if (label_is_feature_)
    if (std::optional<RowFault> wrong = read_label(record)) return wrong;
  return columns_.time_index == TableColumns::kNone ? std::nullopt : read_time(record);
}

std::optional<RowFault> RowReader::read_time(const CsvRecord& record) {
  time_s_ = parse_time(record.cells[columns_.time_index], time_unit_s_);
  if (time_s_) return std::nullopt;
  return fault(record, columns_.time_index,
               "is not a time: a number, or as 2015-02-04 17:51:00; or leave data.time out");
}

std::optional<RowFault> RowReader::read_number(const CsvRecord& record, size_t column,
                                               bool as_label, float* value) {
  const std::string_view cell = record.cells[column];
  std::optional<float> number = parse_float32(cell);
  // Only where a comma may be a mark can there be two of them.
  const size_t mark = comma_allowed_ ? find_mark(cell) : std::string_view::npos;
  if (!number && mark != std::string_view::npos && cell[mark] == ',') {
    with_point_ = cell;
    with_point_[mark] = '.';
    number = parse_float32(with_point_);
  }
  const bool missing = number
                           ? std::ranges::find(missing_numbers_, *number) != missing_numbers_.end()
                           : is_missing_text(cell);
  if (missing) {
    const uint32_t feature = as_label ? TableColumns::kNone : columns_.columns[column].feature;
    if (missing_ != MissingRule::kMean || feature == TableColumns::kNone) {
      RowFault wrong = fault(record, column, "is a missing value");
      if (missing_ == MissingRule::kError)
        wrong.text += "; the run's data.missing can skip such rows or take the mean";
      wrong.kind = RowFault::Kind::kMissing;
      return wrong;
    }
    *value = means_[feature];
    ++replaced_count_;
    return std::nullopt;
  }
  if (!number) return not_a_number(record, column);
  *value = *number;
  return mark == std::string_view::npos ? std::nullopt : check_mark(record, column, mark);
}

std::optional<RowFault> RowReader::read_label(const CsvRecord& record) {
  if (label_is_number_) {
    float number = 0;
    std::optional<RowFault> wrong = read_number(record, columns_.label_index, true, &number);
    label_number_ = wrong ? std::nullopt : std::optional(number);
    return label_needed_ ? wrong : std::nullopt;
  }
  const std::string_view cell = label(record);
  const bool missing = cell.empty() || is_missing_text(cell);
  if (!missing || !label_needed_) return std::nullopt;
  RowFault wrong = fault(record, columns_.label_index, "is empty, but a row needs a label");
  wrong.kind = RowFault::Kind::kMissing;
  return wrong;
}

bool RowReader::is_missing_text(std::string_view cell) const {
  return std::ranges::find(missing_texts_, cell) != missing_texts_.end();
}

std::optional<RowFault> RowReader::check_mark(const CsvRecord& record, size_t column, size_t mark) {
  const char found = record.cells[column][mark];
  if (decimal_mark_ == 0) decimal_mark_ = found;
  if (decimal_mark_ == found) return std::nullopt;
  return fault(
      record, column,
      format_text("has the decimal mark '%c', rows before have '%c'", found, decimal_mark_));
}

RowFault RowReader::not_a_number(const CsvRecord& record, size_t column) const {
  const std::string_view cell = record.cells[column];
  if (cell.empty()) return fault(record, column, "is empty");
  if (column == columns_.label_index)
    return fault(record, column, "is not a number, as the label of this run is");
  const bool numeric = cell.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
  return fault(record, column,
               numeric ? "is no number that fits float32"
                       : "is not a number; correct it, or leave the column out (--ignore)");
}

RowFault RowReader::wrong_count(const CsvRecord& record) const {
  const size_t named = columns_.columns.size();
  const char* hint = "";
  if (record.ends_file && record.cells.size() < named)
    hint = "; the file seems to be cut off";
  else if (record.cells.size() == named + 1)
    hint = "; does the first column lack a name?";
  return {RowFault::Kind::kBad,
          format_text(": %zu cells, the header names %zu%s", record.cells.size(), named, hint)};
}

RowFault RowReader::fault(const CsvRecord& record, size_t column, const std::string& reason) const {
  const std::string& name = columns_.columns[column].name;
  const std::string shown = name.empty() ? std::to_string(column + 1) : quote_for_message(name);
  return {RowFault::Kind::kBad,
          ", column " + shown + ": " + quote_for_message(record.cells[column]) + " " + reason};
}

}  // namespace paceline
