#include "runtime/data/csv_scanner.h"

#include <algorithm>

namespace paceline {

bool CsvRecord::is_empty() const {
  return std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.empty(); });
}

CsvScanner::CsvScanner(std::string_view text, char separator, size_t line)
    : text_(text), line_(line) {
  set_separator(separator);
}

Result<CsvScanner> CsvScanner::make(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return fail(Code::kUnsupported, "the text is UTF-16; save it as UTF-8");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  CsvScanner scanner(text, ',', 1);
  scanner.skip_comments();
  scanner.set_separator(scanner.find_separator());
  return scanner;
}

CsvScanner CsvScanner::arff(std::string_view text, size_t line) {
  CsvScanner scanner(text, ',', line);
  scanner.comment_ = '%';
  scanner.escapes_ = true;
  return scanner;
}

void CsvScanner::set_separator(char separator) {
  separator_ = separator;
  ends_plain_ = {};
  for (const char c : {separator, '\n', '\r', '\0'})
    ends_plain_[static_cast<unsigned char>(c)] = true;
}

bool CsvScanner::at_line_end() const {
  return text_[position_] == '\n' || text_.substr(position_, 2) == "\r\n";
}

void CsvScanner::skip_line_end() {
  if (at_end()) return;
  position_ += text_[position_] == '\r' ? 2 : 1;
  ++line_;
}

void CsvScanner::pass_line() {
  position_ = std::min(text_.find('\n', position_), text_.size());
  skip_line_end();
}

void CsvScanner::skip_comments() {
  while (!at_end() && text_[position_] == comment_) {
    const size_t end = std::min(text_.find('\n', position_), text_.size());
    last_comment_ = {text_.substr(position_ + 1, end - position_ - 1), line_};
    position_ = end;
    skip_line_end();
  }
}

char CsvScanner::find_separator() const {
  size_t commas = 0, semicolons = 0, tabs = 0;
  bool quoted = false;
  for (const char c : text_.substr(position_)) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n') break;
    commas += c == ',';
    semicolons += c == ';';
    tabs += c == '\t';
  }
  if (semicolons > commas && semicolons >= tabs) return ';';
  return tabs > commas ? '\t' : ',';
}

Result<bool> CsvScanner::next(CsvRecord* record) {
  skip_comments();
  if (at_end()) return false;
  record->cells.clear();
  record->unescaped.clear();
  record->line = line_;
  for (;;) {
    if (record->cells.size() == kCsvColumnsMax)
      return fail(Code::kResourceExhausted, "line %zu: more than %zu cells", record->line,
                  kCsvColumnsMax);
    PACELINE_TRY(scan_cell(record));
    if (at_end() || text_[position_] != separator_) break;
    ++position_;
  }
  record->ends_file = at_end();
  skip_line_end();
  return true;
}

// Leaves position_ at a separator, a line end or the end of the text.
Status CsvScanner::scan_cell(CsvRecord* record) {
  while (!at_end() && is_blank(text_[position_])) ++position_;
  const char first = at_end() ? '\0' : text_[position_];
  const bool quoted = first == '"' || (escapes_ && first == '\'');
  if (record->cells.empty()) record->first_quoted = quoted;
  if (!quoted) return scan_plain(record);
  return escapes_ ? scan_escaped(record) : scan_quoted(record);
}

Status CsvScanner::scan_plain(CsvRecord* record) {
  const char* const begin = text_.data() + position_;
  const char* const text_end = text_.data() + text_.size();
  const char* end = begin;
  while (end != text_end && !ends_plain_[static_cast<unsigned char>(*end)]) ++end;
  position_ = static_cast<size_t>(end - text_.data());
  if (end != text_end && *end != separator_ && !at_line_end()) {
    if (*end == '\r')
      return fail(Code::kCorrupt, "line %zu: a carriage return inside a row", line_);
    return fail(Code::kCorrupt, "line %zu: a zero byte; this is not a text table", line_);
  }
  while (end != begin && is_blank(end[-1])) --end;
  record->cells.emplace_back(begin, static_cast<size_t>(end - begin));
  return Status();
}

Status CsvScanner::scan_quoted(CsvRecord* record) {
  const size_t first_line = line_;
  const size_t begin = ++position_;
  bool doubled = false;
  for (;; ++position_) {
    const size_t quote = text_.find('"', position_);
    quote_is_open_ = quote == std::string_view::npos;
    if (quote_is_open_)
      return fail(Code::kCorrupt, "line %zu: a quote is opened and never closed", first_line);
    position_ = quote + 1;
    if (at_end() || text_[position_] != '"') break;
    doubled = true;
  }
  std::string_view content = text_.substr(begin, position_ - 1 - begin);
  line_ += static_cast<size_t>(std::count(content.begin(), content.end(), '\n'));
  if (doubled) {
    std::string& plain = record->unescaped.emplace_back();
    for (size_t i = 0; i < content.size(); ++i) {
      plain += content[i];
      if (content[i] == '"') ++i;
    }
    content = plain;
  }
  record->cells.push_back(content);
  return end_quoted();
}

// ARFF: a quote ends in its line.
Status CsvScanner::scan_escaped(CsvRecord* record) {
  const char quote = text_[position_++];
  std::string plain;
  for (; !at_end() && text_[position_] != quote && text_[position_] != '\n'; ++position_) {
    char c = text_[position_];
    if (c == '\\' && position_ + 1 < text_.size() && text_[position_ + 1] != '\n') {
      c = text_[++position_];
      c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
    }
    plain += c;
  }
  if (at_end() || text_[position_] != quote)
    return fail(Code::kCorrupt, "line %zu: a quote is opened and not closed in its line", line_);
  ++position_;
  record->cells.push_back(record->unescaped.emplace_back(std::move(plain)));
  return end_quoted();
}

Status CsvScanner::end_quoted() {
  while (!at_end() && is_blank(text_[position_])) ++position_;
  if (!at_end() && text_[position_] != separator_ && !at_line_end())
    return fail(Code::kCorrupt, "line %zu: text after a closing quote", line_);
  return Status();
}

}  // namespace paceline
