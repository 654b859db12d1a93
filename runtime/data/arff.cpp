#include "runtime/data/arff.h"

#include <algorithm>
#include <unordered_set>

#include "runtime/base/utf8.h"
#include "runtime/data/csv_scanner.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  text.remove_prefix(begin);
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);  // npos + 1 is 0
}

// Where the first of `marks` stands outside of quotes; else the text's length.
size_t find_unquoted(std::string_view text, std::string_view marks) {
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quote != 0) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == quote)
        quote = 0;
    } else if (marks.find(text[i]) != std::string_view::npos) {
      return i;
    } else if (text[i] == '\'' || text[i] == '"') {
      quote = text[i];
    }
  }
  return text.size();
}

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
}

// Takes the line that `rest` begins with, without its comment.
std::string_view take_line(std::string_view* rest) {
  const size_t end = std::min(rest->find('\n'), rest->size());
  const std::string_view line = rest->substr(0, end);
  rest->remove_prefix(std::min(end + 1, rest->size()));
  return trimmed(line.substr(0, find_unquoted(line, "%")));
}

// Takes a word off the front of `rest`, quotes and all.
std::string_view take_word(std::string_view* rest) {
  const size_t end = find_unquoted(*rest, " \t{");
  const std::string_view word = rest->substr(0, end);
  *rest = trimmed(rest->substr(end));
  return word;
}

// Comma-separated cells without their quotes.
Result<std::vector<std::string>> cells_of(std::string_view text, size_t line) {
  CsvScanner scanner = CsvScanner::arff(text, line);
  CsvRecord record;
  PACELINE_ASSIGN(const bool found, scanner.next(&record));
  if (!found) return std::vector<std::string>(1);
  return std::vector<std::string>(record.cells.begin(), record.cells.end());
}

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : rest_(text) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  Result<ArffTable> read() {
    while (!rest_.empty()) {
      ++line_;
      std::string_view line = take_line(&rest_);
      if (line.empty()) continue;
      const std::string_view keyword = take_word(&line);
      if (equals_ignoring_case(keyword, "@data")) return finish();
      if (equals_ignoring_case(keyword, "@relation")) continue;
      if (!equals_ignoring_case(keyword, "@attribute"))
        return fail(Code::kCorrupt, "line %zu: %s where @attribute or @data should stand", line_,
                    quote_for_message(keyword).c_str());
      PACELINE_TRY(add_attribute(line));
    }
    return fail(Code::kCorrupt, "the file ends before @data");
  }

 private:
  Status add_attribute(std::string_view text) {
    if (table_.attributes.size() == kCsvColumnsMax)
      return fail(Code::kResourceExhausted, "line %zu: more than %zu attributes", line_,
                  kCsvColumnsMax);
    ArffAttribute attribute;
    PACELINE_ASSIGN(std::vector<std::string> names, cells_of(take_word(&text), line_));
    attribute.name = std::move(names[0]);
    const std::string shown = quote_for_message(attribute.name);
    if (names.size() != 1 || attribute.name.empty() || !is_utf8(attribute.name))
      return fail(Code::kCorrupt, "line %zu: an attribute needs a name, in quotes if it has blanks",
                  line_);
    if (!names_.insert(attribute.name).second)
      return fail(Code::kCorrupt, "line %zu: attribute %s occurs twice", line_, shown.c_str());
    const auto is = [&](std::string_view type) {
      return equals_ignoring_case(text.substr(0, text.find_first_of(kBlanks)), type);
    };
    if (text.starts_with('{'))
      PACELINE_TRY(read_values(text.substr(1), &attribute));
    else if (is("string") || is("date"))
      attribute.kind = ArffAttribute::Kind::kText;
    else if (is("relational"))
      return fail(Code::kUnsupported, "line %zu: attribute %s is relational, which is not read",
                  line_, shown.c_str());
    else if (!is("numeric") && !is("real") && !is("integer"))
      return fail(Code::kCorrupt,
                  "line %zu: attribute %s is of type %s; numeric, real, integer, string, date and "
                  "{a, b} are known",
                  line_, shown.c_str(), quote_for_message(text).c_str());
    table_.attributes.push_back(std::move(attribute));
    table_.header_line = line_;
    return {};
  }

  Status read_values(std::string_view text, ArffAttribute* attribute) const {
    attribute->kind = ArffAttribute::Kind::kNominal;
    const size_t end = find_unquoted(text, "}");
    const std::string shown = quote_for_message(attribute->name);
    if (end == text.size())
      return fail(Code::kCorrupt, "line %zu: the values of attribute %s are not closed with '}'",
                  line_, shown.c_str());
    PACELINE_ASSIGN(attribute->values, cells_of(text.substr(0, end), line_));
    std::unordered_set<std::string_view> seen;
    for (const std::string& value : attribute->values)
      if (value.empty() || !is_utf8(value) || !seen.insert(value).second)
        return fail(Code::kCorrupt,
                    "line %zu: the values of attribute %s have to be different words in UTF-8; %s",
                    line_, shown.c_str(), quote_for_message(value).c_str());
    return {};
  }

  Result<ArffTable> finish() {
    if (table_.attributes.empty())
      return fail(Code::kCorrupt, "line %zu: @data, but no @attribute before it", line_);
    table_.rows = rest_;
    table_.rows_line = line_ + 1;
    for (size_t line = table_.rows_line; !rest_.empty(); ++line) {
      const std::string_view row = take_line(&rest_);
      if (row.empty()) continue;
      if (row.starts_with('{'))
        return fail(Code::kUnsupported,
                    "line %zu: sparse ARFF rows {index value, ...} are not read; save the table "
                    "with all its cells, or as LibSVM",
                    line);
      break;
    }
    return std::move(table_);
  }

  std::string_view rest_;
  size_t line_ = 0;
  std::unordered_set<std::string> names_;
  ArffTable table_;
};

}  // namespace

bool looks_like_arff(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (!text.empty()) {
    std::string_view line = take_line(&text);
    if (!line.empty()) return equals_ignoring_case(take_word(&line), "@relation");
  }
  return false;
}

Result<ArffTable> parse_arff(std::string_view text) { return HeaderReader(text).read(); }

}  // namespace paceline
