// Splits the text of a CSV file into records of cells.
//
// RFC 4180 with what real files need: LF, CRLF or both, no final newline, blanks around cells, a
// byte order mark, and lines that start with '#' as comments. A quote is special only at the start
// of a cell. Knows nothing of numbers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

inline constexpr size_t kCsvColumnsMax = 65536;

struct CsvRecord {
  std::vector<std::string> cells;  // without quotes and without blanks around them
  size_t line = 0;                 // on which it starts, from 1
  bool ends_file = false;          // the file ends right after its last cell, without a newline

  bool is_empty() const;  // no cell has content
};

class CsvScanner {
 public:
  // `text` must outlive the scanner. The separator, one of , ; and tab, is the one that occurs most
  // in the first line that is no comment. Errors: kUnsupported for text that is not UTF-8 by its
  // byte order mark.
  static Result<CsvScanner> make(std::string_view text);

  // The next record, or false at the end of the file. `record` is overwritten.
  // Errors: kCorrupt naming the line: a quote that is never closed, text after a closing quote, a
  // carriage return inside a row, a zero byte. kResourceExhausted beyond kCsvColumnsMax cells.
  Result<bool> next(CsvRecord* record);

  char separator() const { return separator_; }

 private:
  explicit CsvScanner(std::string_view text) : text_(text) {}

  bool at_end() const { return position_ >= text_.size(); }
  bool at_line_end() const;
  bool is_blank(char c) const { return c == ' ' || (c == '\t' && separator_ != '\t'); }
  void skip_comments();
  char find_separator() const;
  Status scan_cell(std::string* cell);
  Status scan_quoted(std::string* cell);
  Status scan_plain(std::string* cell);
  void skip_line_end();

  std::string_view text_;
  size_t position_ = 0;
  size_t line_ = 1;
  char separator_ = ',';
};

}  // namespace paceline
