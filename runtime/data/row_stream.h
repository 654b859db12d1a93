// Rows of a table one by one, while it is still being written: from a pipe, or from a file that
// grows.
//
// Where the first line begins with '{', each line is an object (json_row.h) and the first one's
// names are the columns; otherwise it is CSV.
//
// A row counts once its line has ended, or once the text has. What can't be split into cells is an
// error of that row alone: the next one is read as if it had not been there.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/csv_columns.h"
#include "runtime/data/csv_scanner.h"

namespace paceline {

class RowStream {
 public:
  static constexpr size_t kLineBytesMax = size_t{1} << 20;
  // A quote that is not closed on so many lines was none.
  static constexpr size_t kRowLinesMax = 64;

  // Puts more text behind what is in `text`; false at the end. It may wait.
  using Source = std::function<Result<bool>(std::string* text)>;

  explicit RowStream(Source source) : source_(std::move(source)) {}

  // Once, first. Waits for the first row. Errors: those of read_table_header().
  Result<TableHeader> header();
  char separator() const { return separator_; }

  // The next row with content, or false at the end. Errors: kCorrupt for one row, after which the
  // next may be asked for; others end the stream.
  Result<bool> next(CsvRecord* record);

 private:
  // The next line with its end; false where there is none.
  Result<bool> take_line(std::string* line);
  Result<TableHeader> json_header();
  Result<bool> next_json(CsvRecord* record);

  Source source_;
  std::string buffer_;
  size_t begin_ = 0;  // of what was not taken yet
  bool ended_ = false;
  std::string row_;  // what the newest record's cells point to
  size_t line_ = 1;  // of what comes next
  char separator_ = ',';
  std::string head_;  // lines up to the first row
  std::optional<CsvScanner> in_head_;
  std::vector<std::string> json_columns_;  // none: the rows are CSV
};

}  // namespace paceline
