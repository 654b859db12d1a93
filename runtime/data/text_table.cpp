#include "runtime/data/text_table.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/base/nearest.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"

namespace paceline {

namespace {

constexpr std::string_view kMissing = "?";

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Whether the run or the user says what this attribute is.
bool is_named(std::string_view name, const ReadOptions& options) {
  if (holds(options.ignored_columns, name)) return true;
  const DataSchema* schema = options.schema;
  return schema != nullptr && (holds(schema->columns, name) || holds(schema->ignored, name) ||
                               schema->windows.time == name);
}

std::string label_name(const ArffTable& table, const ReadOptions& options) {
  if (!options.label_column.empty()) return options.label_column;
  if (options.schema != nullptr && options.schema->names_columns()) return options.schema->label;
  for (size_t i = table.attributes.size(); i-- > 0;)
    if (!holds(options.ignored_columns, table.attributes[i].name)) return table.attributes[i].name;
  return {};
}

}  // namespace

Result<TextTable> TextTable::open(std::string_view text, const ReadOptions& options) {
  if (!looks_like_arff(text)) {
    PACELINE_ASSIGN(CsvScanner scanner, CsvScanner::make(text));
    TextTable table(std::move(scanner));
    PACELINE_ASSIGN(table.header_, read_table_header(&table.scanner_));
    return table;
  }
  PACELINE_ASSIGN(ArffTable arff, parse_arff(text));
  TextTable table(CsvScanner::arff(arff.rows, arff.rows_line));
  PACELINE_TRY(table.take_attributes(std::move(arff), options));
  return table;
}

Status TextTable::take_attributes(ArffTable table, const ReadOptions& options) {
  using Kind = ArffAttribute::Kind;
  label_ = label_name(table, options);
  header_.line = table.header_line;
  const bool by_name = options.schema != nullptr && options.schema->names_columns();
  for (ArffAttribute& attribute : table.attributes) {
    const bool is_label = attribute.name == label_;
    const bool numbers = std::ranges::all_of(attribute.values, [](const std::string& value) {
      return parse_float32(value).has_value();
    });
    if (attribute.kind == Kind::kText && !by_name && !is_named(attribute.name, options))
      return fail(Code::kUnsupported,
                  "attribute %s is text or a date, and only numbers and {a, b} are read; leave it "
                  "out (--ignore)",
                  quote_for_message(attribute.name).c_str());
    if (is_label) classes_ = attribute.values;
    if (is_label || attribute.kind != Kind::kNominal || numbers ||
        is_named(attribute.name, options)) {
      header_.names.push_back(attribute.name);
      attributes_.push_back({std::move(attribute.name), {}});
      continue;
    }
    for (const std::string& value : attribute.values)
      header_.names.push_back(attribute.name + "=" + value);
    attributes_.push_back({std::move(attribute.name), std::move(attribute.values)});
    if (header_.names.size() > kCsvColumnsMax)
      return fail(Code::kResourceExhausted, "more than %zu columns, one for each value of a word",
                  kCsvColumnsMax);
  }
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : header_.names)
    if (!seen.insert(name).second)
      return fail(Code::kCorrupt, "line %zu: two columns would have the name %s", header_.line,
                  quote_for_message(name).c_str());
  return {};
}

std::optional<RowFault> TextTable::spread(CsvRecord* record) const {
  if (attributes_.empty()) return std::nullopt;
  if (record->cells.size() != attributes_.size())
    return RowFault{RowFault::Kind::kBad,
                    format_text(": %zu cells, the header names %zu attributes%s",
                                record->cells.size(), attributes_.size(),
                                record->ends_file && record->cells.size() < attributes_.size()
                                    ? "; the file seems to be cut off"
                                    : "")};
  std::vector<std::string_view> cells;
  cells.reserve(header_.names.size());
  for (size_t i = 0; i < attributes_.size(); ++i) {
    const std::vector<std::string>& values = attributes_[i].values;
    const std::string_view cell = record->cells[i];
    if (values.empty()) {
      cells.push_back(cell);
      continue;
    }
    const bool missing = cell == kMissing;
    if (!missing && !holds(values, cell)) {
      const std::vector<std::string_view> known(values.begin(), values.end());
      return RowFault{RowFault::Kind::kBad, ", attribute " +
                                                quote_for_message(attributes_[i].name) + ": " +
                                                quote_for_message(cell) + " is none of its values" +
                                                suggest_name(cell, known)};
    }
    for (const std::string& value : values)
      cells.push_back(missing ? kMissing : value == cell ? "1" : "0");
  }
  record->cells = std::move(cells);
  return std::nullopt;
}

}  // namespace paceline
