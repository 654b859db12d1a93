#include "runtime/data/csv_columns.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/base/nearest.h"
#include "runtime/base/utf8.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"

namespace paceline {

namespace {

constexpr size_t kNamesShownMax = 12;

using Names = std::vector<std::string>;

Status check_names(const TableHeader& header) {
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < header.names.size(); ++i) {
    const std::string& name = header.names[i];
    if (name.empty()) continue;
    const std::string quoted = quote_for_message(name);
    if (!is_utf8(name))
      return fail(Code::kCorrupt,
                  "line %zu: the name of column %zu is not UTF-8; save the file as UTF-8",
                  header.line, i + 1);
    if (parse_float32(name))
      return fail(
          Code::kCorrupt,
          "line %zu: %s stands where column %zu should be named; put a line of column names first",
          header.line, quoted.c_str(), i + 1);
    if (!seen.insert(name).second)
      return fail(Code::kCorrupt, "line %zu: column %s occurs twice", header.line, quoted.c_str());
  }
  return {};
}

bool is_number(std::string_view cell) { return parse_float32(cell).has_value(); }

// "# Columns: time,x,y" above rows of numbers names three columns.
Names names_in_comment(const CsvScanner& scanner, const CsvRecord& row) {
  std::string_view text = scanner.last_comment().text;
  while (!text.empty() && (text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  if (const size_t colon = text.find(':'); colon != std::string_view::npos)
    text.remove_prefix(colon + 1);
  CsvScanner words(text, scanner.separator(), scanner.last_comment().line);
  CsvRecord record;
  const Result<bool> found = words.next(&record);
  if (!found || !*found || record.cells.size() != row.cells.size()) return {};
  if (std::ranges::any_of(record.cells, is_number)) return {};
  return Names(record.cells.begin(), record.cells.end());
}

// R writes row names in quotes and gives their column no name.
Status take_row_names(const CsvScanner& at_first_row, TableHeader* header) {
  CsvScanner ahead = at_first_row;
  CsvRecord row;
  do {
    const Result<bool> more = ahead.next(&row);
    if (!more || !*more) return {};  // whoever reads the rows will say why
  } while (row.is_empty());
  if (row.cells.size() != header->names.size() + 1 || !row.first_quoted) return {};
  header->names.insert(header->names.begin(), std::string());
  header->has_row_names = true;
  header->notes.push_back(
      "the rows have one cell more than there are names: the first, in quotes, is taken for a row "
      "name and left out");
  return {};
}

std::string name_list(const Names& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShownMax); ++i)
    text += (i == 0 ? "" : ", ") + quote_for_message(names[i]);
  if (names.size() > kNamesShownMax)
    text += format_text(" and %zu more", names.size() - kNamesShownMax);
  return text;
}

class ColumnFinder {
 public:
  explicit ColumnFinder(const TableHeader& header) : header_(header) {
    for (const std::string& name : header.names)
      found_.columns.push_back(
          {name, name.empty() ? ColumnRole::kUnnamed : ColumnRole::kIgnored, TableColumns::kNone});
    if (header.has_row_names) found_.columns[0].role = ColumnRole::kIgnored;
    found_.notes = header.notes;
  }

  Result<TableColumns> by_file(const ReadOptions& options) {
    for (TableColumns::Column& column : found_.columns)
      if (column.role == ColumnRole::kIgnored && !column.name.empty())
        column.role = ColumnRole::kFeature;
    for (const std::string& name : options.ignored_columns) {
      PACELINE_ASSIGN(const uint32_t index, find(name));
      found_.columns[index].role = ColumnRole::kIgnored;
    }
    if (!options.label_column.empty()) {
      PACELINE_ASSIGN(found_.label_index, find(options.label_column));
    } else {
      for (uint32_t i = 0; i < found_.columns.size(); ++i)
        if (found_.columns[i].role == ColumnRole::kFeature) found_.label_index = i;
    }
    if (found_.label_index != TableColumns::kNone)
      found_.columns[found_.label_index].role = ColumnRole::kLabel;
    for (TableColumns::Column& column : found_.columns) {
      if (column.role != ColumnRole::kFeature) continue;
      column.feature = static_cast<uint32_t>(found_.feature_names.size());
      found_.feature_names.push_back(column.name);
    }
    if (found_.feature_names.empty())
      return fail(Code::kInvalidArgument,
                  "line %zu: a table needs a label column and at least one other", header_.line);
    return std::move(found_);
  }

  Result<TableColumns> by_schema(const DataSchema& schema, const ReadOptions& options) {
    for (uint32_t i = 0; i < schema.columns.size(); ++i) {
      PACELINE_ASSIGN(const uint32_t index, find(schema.columns[i]));
      found_.columns[index].role = ColumnRole::kFeature;
      found_.columns[index].feature = i;
    }
    found_.feature_names = schema.columns;
    const bool own_label = !options.label_column.empty();
    Result<uint32_t> label = find(own_label ? options.label_column : schema.label);
    if (label)
      found_.label_index = *label;
    else if (own_label || !options.label_optional)
      return fail(Code::kNotFound, "%s%s", label.error().message().c_str(),
                  own_label ? "" : " (the label; --label-column NAME where this file calls it so)");
    if (!schema.windows.time.empty()) {
      PACELINE_ASSIGN(found_.time_index, find(schema.windows.time));
    }
    if (label) {
      const bool is_feature = found_.columns[*label].role == ColumnRole::kFeature;
      if (is_feature && !schema.forecasts())
        return fail(Code::kInvalidArgument, "column %s is a feature of the run, not the label",
                    quote_for_message(options.label_column).c_str());
      if (!is_feature) found_.columns[*label].role = ColumnRole::kLabel;
    }
    note_extra_columns(schema, options);
    return std::move(found_);
  }

 private:
  Result<uint32_t> find(const std::string& name) const {
    const auto at = std::ranges::find(header_.names, name);
    if (at != header_.names.end() && !name.empty())
      return static_cast<uint32_t>(at - header_.names.begin());
    std::vector<std::string_view> views;
    for (const std::string& known : header_.names)
      if (!known.empty()) views.push_back(known);
    const std::string_view nearest = nearest_name(name, views);
    return fail(Code::kNotFound, "line %zu: no column is named %s; %s %s", header_.line,
                quote_for_message(name).c_str(), nearest.empty() ? "there are" : "did you mean",
                nearest.empty() ? name_list(header_.names).c_str()
                                : (quote_for_message(nearest) + "?").c_str());
  }

  void note_extra_columns(const DataSchema& schema, const ReadOptions& options) {
    Names extra;
    for (const TableColumns::Column& column : found_.columns) {
      const auto expected = [&](const Names& names) {
        return std::ranges::find(names, column.name) != names.end();
      };
      if (column.role == ColumnRole::kIgnored && !column.name.empty() &&
          column.name != schema.windows.time && !expected(schema.ignored) &&
          !expected(options.ignored_columns))
        extra.push_back(column.name);
    }
    if (!extra.empty())
      found_.notes.push_back("columns that the run does not name, left out: " + name_list(extra));
  }

  const TableHeader& header_;
  TableColumns found_;
};

}  // namespace

Result<TableHeader> read_table_header(CsvScanner* scanner) {
  CsvRecord record;
  CsvScanner before = *scanner;
  for (;;) {
    before = *scanner;
    PACELINE_ASSIGN(const bool more, scanner->next(&record));
    if (!more) return fail(Code::kInvalidArgument, "no line of column names");
    if (!record.is_empty()) break;
  }
  TableHeader header{Names(record.cells.begin(), record.cells.end()), record.line, false, {}};
  if (std::ranges::all_of(record.cells, is_number) && scanner->last_comment().line > 0) {
    if (Names names = names_in_comment(*scanner, record); !names.empty()) {
      header.names = std::move(names);
      header.line = scanner->last_comment().line;
      header.notes.push_back(format_text(
          "no line of column names: those of the comment in line %zu are taken", header.line));
      *scanner = before;
      PACELINE_TRY(check_names(header));
      return header;
    }
  }
  PACELINE_TRY(take_row_names(*scanner, &header));
  PACELINE_TRY(check_names(header));
  return header;
}

Result<TableColumns> find_columns(const TableHeader& header, const ReadOptions& options) {
  ColumnFinder finder(header);
  const bool by_name = options.schema != nullptr && options.schema->names_columns();
  return by_name ? finder.by_schema(*options.schema, options) : finder.by_file(options);
}

}  // namespace paceline
