#include "runtime/data/csv_scanner.h"

#include <algorithm>

namespace paceline {

bool CsvRecord::is_empty() const {
  return std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return cell.empty(); });
}

Result<CsvScanner> CsvScanner::make(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return fail(Code::kUnsupported, "the text is UTF-16; save it as UTF-8");
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  CsvScanner scanner(text);
  scanner.skip_comments();
  scanner.separator_ = scanner.find_separator();
  return scanner;
}

bool CsvScanner::at_line_end() const {
  return text_[position_] == '\n' || text_.substr(position_, 2) == "\r\n";
}

void CsvScanner::skip_line_end() {
  if (at_end()) return;
  position_ += text_[position_] == '\r' ? 2 : 1;
  ++line_;
}

void CsvScanner::skip_comments() {
  while (!at_end() && text_[position_] == '#') {
    position_ = std::min(text_.find('\n', position_), text_.size());
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
  record->line = line_;
  record->ends_file = false;
  size_t count = 0;
  for (;;) {
    if (count == kCsvColumnsMax)
      return fail(Code::kResourceExhausted, "line %zu: more than %zu cells", record->line,
                  kCsvColumnsMax);
    // Cells are reused: a record of numbers then needs no allocation.
    if (count == record->cells.size()) record->cells.emplace_back();
    std::string& cell = record->cells[count++];
    cell.clear();
    PACELINE_TRY(scan_cell(&cell));
    if (at_end() || text_[position_] != separator_) break;
    ++position_;
  }
  record->cells.resize(count);
  record->ends_file = at_end();
  skip_line_end();
  return true;
}

// Leaves position_ at a separator, a line end or the end of the text.
Status CsvScanner::scan_cell(std::string* cell) {
  while (!at_end() && is_blank(text_[position_])) ++position_;
  if (!at_end() && text_[position_] == '"') return scan_quoted(cell);
  return scan_plain(cell);
}

Status CsvScanner::scan_plain(std::string* cell) {
  const size_t start = position_;
  for (; !at_end() && text_[position_] != separator_ && !at_line_end(); ++position_) {
    if (text_[position_] == '\r')
      return fail(Code::kCorrupt, "line %zu: a carriage return inside a row", line_);
    if (text_[position_] == '\0')
      return fail(Code::kCorrupt, "line %zu: a zero byte; this is not a text table", line_);
  }
  std::string_view content = text_.substr(start, position_ - start);
  while (!content.empty() && is_blank(content.back())) content.remove_suffix(1);
  cell->assign(content);
  return Status();
}

Status CsvScanner::scan_quoted(std::string* cell) {
  const size_t first_line = line_;
  ++position_;
  for (;;) {
    const size_t quote = text_.find('"', position_);
    if (quote == std::string_view::npos)
      return fail(Code::kCorrupt, "line %zu: a quote is opened and never closed", first_line);
    const std::string_view piece = text_.substr(position_, quote - position_);
    line_ += static_cast<size_t>(std::count(piece.begin(), piece.end(), '\n'));
    cell->append(piece);
    position_ = quote + 1;
    if (at_end() || text_[position_] != '"') break;
    *cell += '"';
    ++position_;
  }
  while (!at_end() && is_blank(text_[position_])) ++position_;
  if (!at_end() && text_[position_] != separator_ && !at_line_end())
    return fail(Code::kCorrupt, "line %zu: text after a closing quote", line_);
  return Status();
}

}  // namespace paceline
