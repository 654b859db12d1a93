// Splits the text of a CSV file into records of cells.
//
// RFC 4180 with what real files need: LF, CRLF or both, no final newline, blanks around cells, a
// byte order mark, and lines that start with '#' as comments. A quote is special only at the start
// of a cell. Knows nothing of numbers. Cells are views into the text: nothing is copied but what
// has a doubled quote in it.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

inline constexpr size_t kCsvColumnsMax = 65536;

struct CsvRecord {
  // Without quotes and without blanks around them; valid as long as the text and this record.
  std::vector<std::string_view> cells;
  size_t line = 0;                    // on which it starts, from 1
  bool ends_file = false;             // the file ends right after its last cell, without a newline
  bool first_quoted = false;          // its first cell stands in quotes
  std::deque<std::string> unescaped;  // what cells with doubled quotes point to

  bool is_empty() const;  // no cell has content
};

class CsvScanner {
 public:
  struct Comment {
    std::string_view text;  // behind the '#'
    size_t line = 0;        // 0: there is none
  };

  // `text` must outlive the scanner. The separator, one of , ; and tab, is the one that occurs most
  // in the first line that is no comment. Errors: kUnsupported for text that is not UTF-8 by its
  // byte order mark.
  static Result<CsvScanner> make(std::string_view text);
  // For the rest of a table that is known already: its text begins on line `line`.
  CsvScanner(std::string_view text, char separator, size_t line);
  // The rows of an ARFF table: commas; quotes of either kind, where \ escapes; '%' for comments.
  static CsvScanner arff(std::string_view text, size_t line);

  // The next record, or false at the end of the file. `record` is overwritten.
  // Errors: kCorrupt naming the line: a quote that is never closed, text after a closing quote, a
  // carriage return inside a row, a zero byte. kResourceExhausted beyond kCsvColumnsMax cells.
  Result<bool> next(CsvRecord* record);

  // After an error: goes on behind the end of the line that it is in.
  void pass_line();

  char separator() const { return separator_; }
  size_t line() const { return line_; }  // that comes next
  // The last error was a quote that the text does not close: more text may.
  bool quote_is_open() const { return quote_is_open_; }
  // The newest one that was passed.
  const Comment& last_comment() const { return last_comment_; }

 private:
  bool at_end() const { return position_ >= text_.size(); }
  bool at_line_end() const;
  bool is_blank(char c) const { return c == ' ' || (c == '\t' && separator_ != '\t'); }
  void skip_comments();
  void set_separator(char separator);
  char find_separator() const;
  Status scan_cell(CsvRecord* record);
  Status scan_quoted(CsvRecord* record);
  Status scan_escaped(CsvRecord* record);
  Status end_quoted();
  Status scan_plain(CsvRecord* record);
  void skip_line_end();

  std::string_view text_;
  size_t position_ = 0;
  size_t line_ = 1;
  char separator_ = ',';
  char comment_ = '#';
  bool escapes_ = false;                // quotes are those of ARFF
  std::array<bool, 256> ends_plain_{};  // bytes that a plain cell stops at
  Comment last_comment_;
  bool quote_is_open_ = false;
};

}  // namespace paceline
