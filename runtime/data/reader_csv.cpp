// CSV with a header. Rows become float32 features and one label.
//
// Stated rules: every feature cell must be a decimal number; an empty cell, text, NaN or an
// infinity is an error with its place, never a guess. Where ';' separates, the decimal mark may be
// a comma, but a file has only one of the two. Rows without any content are skipped and counted.
// Unnamed columns may exist as long as they are empty.
#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_set>
#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/formats.h"
#include "runtime/data/label_column.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"

namespace paceline {

namespace {

enum class Role : uint8_t { kFeature, kLabel, kIgnored, kUnnamed };

struct Columns {
  std::vector<std::string> names;
  std::vector<Role> roles;
  std::vector<std::string> feature_names;
  size_t label_index = 0;
};

size_t find_column(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

Status check_header(const CsvRecord& header) {
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < header.cells.size(); ++i) {
    const std::string& name = header.cells[i];
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
  return Status();
}

Result<Columns> assign_roles(CsvRecord header, const ReadOptions& options) {
  PACELINE_TRY(check_header(header));
  Columns columns{std::move(header.cells), {}, {}, 0};
  const size_t count = columns.names.size();
  for (const std::string& name : columns.names)
    columns.roles.push_back(name.empty() ? Role::kUnnamed : Role::kFeature);
  const auto not_found = [&](const std::string& name) {
    return fail(Code::kNotFound, "line %zu: no column is named %s", header.line,
                quote_for_message(name).c_str());
  };
  for (const std::string& name : options.ignored_columns) {
    const size_t index = find_column(columns.names, name);
    if (index == count || name.empty()) return not_found(name);
    columns.roles[index] = Role::kIgnored;
  }
  columns.label_index = find_column(columns.names, options.label_column);
  if (options.label_column.empty()) {
    const auto last = std::find(columns.roles.rbegin(), columns.roles.rend(), Role::kFeature);
    columns.label_index = static_cast<size_t>(columns.roles.rend() - last) - 1;
    if (last == columns.roles.rend()) columns.label_index = count;
  } else if (columns.label_index == count) {
    return not_found(options.label_column);
  }
  if (columns.label_index != count) columns.roles[columns.label_index] = Role::kLabel;
  for (size_t i = 0; i < count; ++i)
    if (columns.roles[i] == Role::kFeature) columns.feature_names.push_back(columns.names[i]);
  if (columns.feature_names.empty())
    return fail(Code::kInvalidArgument,
                "line %zu: a table needs a label column and at least one other", header.line);
  return columns;
}

// Reads feature cells; knows the file's decimal mark once it has seen one.
class NumberReader {
 public:
  explicit NumberReader(char separator) : comma_allowed_(separator == ';') {}

  // Why the cell is no number, or nothing and `value` is set.
  std::optional<std::string> read(const std::string& cell, float* value) {
    if (cell.empty()) return "is empty";
    const size_t mark = cell.find_first_of(",.");
    std::optional<float> number;
    if (mark != std::string::npos && cell[mark] == ',' && comma_allowed_) {
      std::string with_point = cell;
      with_point[mark] = '.';
      number = parse_float32(with_point);
    } else {
      number = parse_float32(cell);
    }
    if (!number) return reason(cell);
    *value = *number;
    if (mark == std::string::npos) return std::nullopt;
    if (decimal_mark_ == 0) decimal_mark_ = cell[mark];
    if (decimal_mark_ == cell[mark]) return std::nullopt;
    return std::string("has the decimal mark '") + cell[mark] + "', rows before have '" +
           decimal_mark_ + "'";
  }

 private:
  static std::string reason(const std::string& cell) {
    const bool numeric = cell.find_first_not_of("0123456789+-.eE") == std::string::npos;
    return numeric ? "is no number that fits float32"
                   : "is not a number; correct it, or leave the column out (--ignore)";
  }

  bool comma_allowed_;
  char decimal_mark_ = 0;
};

class TableReader {
 public:
  TableReader(CsvScanner scanner, Columns columns)
      : scanner_(std::move(scanner)),
        columns_(std::move(columns)),
        numbers_(scanner_.separator()) {}

  Status read_rows() {
    CsvRecord record;
    for (;;) {
      PACELINE_ASSIGN(const bool more, scanner_.next(&record));
      if (!more) return Status();
      if (record.is_empty()) {
        ++empty_row_count_;
        continue;
      }
      ++row_count_;
      PACELINE_TRY(add_row(record));
    }
  }

  Result<Dataset> finish(uint32_t class_count) {
    if (row_count_ == 0) return fail(Code::kInvalidArgument, "a header, but no rows below it");
    PACELINE_ASSIGN(LabelColumn::Classes classes, labels_.finish(class_count));
    const auto feature_count = static_cast<uint32_t>(columns_.feature_names.size());
    values_.shrink_to_fit();
    const auto found = static_cast<uint32_t>(classes.names.size());
    Dataset dataset(ElementType::kFloat32, std::move(values_), {feature_count},
                    std::move(classes.labels), std::max(class_count, found));
    dataset.column_names = std::move(columns_.feature_names);
    dataset.class_names = std::move(classes.names);
    if (empty_row_count_ > 0)
      dataset.notes.push_back(format_text("rows without content, skipped: %zu", empty_row_count_));
    return dataset;
  }

 private:
  Status add_row(const CsvRecord& record) {
    if (record.cells.size() != columns_.names.size()) return wrong_count(record);
    for (size_t i = 0; i < record.cells.size(); ++i) {
      const std::string& cell = record.cells[i];
      switch (columns_.roles[i]) {
        case Role::kIgnored:
          break;
        case Role::kUnnamed:
          if (!cell.empty()) return cell_error(record, i, "stands in a column without a name");
          break;
        case Role::kLabel:
          if (cell.empty()) return cell_error(record, i, "is empty, but a row needs a label");
          if (Status status = labels_.add(cell); !status.ok())
            return cell_error(record, i, status.message());
          break;
        case Role::kFeature: {
          float value = 0;
          if (const auto reason = numbers_.read(cell, &value))
            return cell_error(record, i, *reason);
          const auto* raw = reinterpret_cast<const std::byte*>(&value);
          values_.insert(values_.end(), raw, raw + sizeof value);
          break;
        }
      }
    }
    return Status();
  }

  Status wrong_count(const CsvRecord& record) const {
    const char* hint = "";
    if (record.ends_file && record.cells.size() < columns_.names.size())
      hint = "; the file seems to be cut off";
    else if (row_count_ == 1 && record.cells.size() == columns_.names.size() + 1)
      hint = "; does the first column lack a name?";
    return fail(Code::kCorrupt, "row %zu (line %zu): %zu cells, the header names %zu%s", row_count_,
                record.line, record.cells.size(), columns_.names.size(), hint);
  }

  Status cell_error(const CsvRecord& record, size_t index, const std::string& reason) const {
    const std::string name = columns_.names[index].empty()
                                 ? std::to_string(index + 1)
                                 : quote_for_message(columns_.names[index]);
    return fail(Code::kCorrupt, "row %zu (line %zu), column %s: %s %s", row_count_, record.line,
                name.c_str(), quote_for_message(record.cells[index]).c_str(), reason.c_str());
  }

  CsvScanner scanner_;
  Columns columns_;
  NumberReader numbers_;
  LabelColumn labels_;
  Bytes values_;
  size_t row_count_ = 0;
  size_t empty_row_count_ = 0;
};

}  // namespace

bool matches_csv(std::string_view, ByteSpan content) {
  const auto head = content.first(std::min<size_t>(content.size(), 4096));
  // UTF-16 holds zero bytes too, but deserves its own message.
  const bool utf16 = head.size() >= 2 && (head[0] == std::byte{0xFF} || head[0] == std::byte{0xFE});
  return utf16 || std::find(head.begin(), head.end(), std::byte{0}) == head.end();
}

Result<Dataset> read_csv(Bytes content, const ReadOptions& options) {
  if (!options.label_file.empty())
    return fail(Code::kInvalidArgument,
                "a text table has its label in a column; leave the label file %s out",
                options.label_file.c_str());
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  PACELINE_ASSIGN(CsvScanner scanner, CsvScanner::make(text));
  CsvRecord header;
  for (;;) {
    PACELINE_ASSIGN(const bool more, scanner.next(&header));
    if (!more) return fail(Code::kInvalidArgument, "no line of column names");
    if (!header.is_empty()) break;
  }
  PACELINE_ASSIGN(Columns columns, assign_roles(std::move(header), options));
  TableReader reader(std::move(scanner), std::move(columns));
  PACELINE_TRY(reader.read_rows());
  return reader.finish(options.class_count);
}

}  // namespace paceline
