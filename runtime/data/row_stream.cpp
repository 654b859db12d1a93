#include "runtime/data/row_stream.h"

#include <algorithm>
#include <utility>

#include "runtime/data/arff.h"
#include "runtime/data/json_row.h"

namespace paceline {

Result<bool> RowStream::take_line(std::string* line) {
  size_t searched = begin_;
  for (;;) {
    const size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      line->append(buffer_, begin_, end + 1 - begin_);
      begin_ = end + 1;
      return true;
    }
    if (buffer_.size() - begin_ > kLineBytesMax)
      return fail(Code::kResourceExhausted, "line %zu: more than %zu bytes", line_, kLineBytesMax);
    buffer_.erase(0, std::exchange(begin_, 0));
    searched = buffer_.size();
    if (ended_) break;
    PACELINE_ASSIGN(const bool more, source_(&buffer_));
    ended_ = !more;
  }
  if (buffer_.empty()) return false;
  line->append(std::exchange(buffer_, {}));
  return true;
}

Result<TableHeader> RowStream::header() {
  for (;;) {
    PACELINE_ASSIGN(const bool more, take_line(&head_));
    if (looks_like_json(head_)) return json_header();
    if (looks_like_arff(head_))
      return fail(Code::kUnsupported,
                  "ARFF is read as a whole file, not row by row; save it as CSV, or as JSON lines");
    PACELINE_ASSIGN(CsvScanner scanner, CsvScanner::make(head_));
    Result<TableHeader> header = read_table_header(&scanner);
    const bool last = !more || head_.size() > kLineBytesMax;
    if (!header) {
      // No names yet, or ones that go on in the next line.
      const bool unfinished =
          header.error().code() == Code::kInvalidArgument || scanner.quote_is_open();
      if (last || !unfinished) return header;
      continue;
    }
    CsvRecord row;
    CsvScanner ahead = scanner;
    Result<bool> found = ahead.next(&row);
    while (found && *found && row.is_empty()) found = ahead.next(&row);
    // A row that is there but wrong is for next() to tell.
    const bool unfinished = found ? !*found : ahead.quote_is_open();
    if (unfinished && !last) continue;
    separator_ = scanner.separator();
    in_head_ = scanner;
    return header;
  }
}

Result<TableHeader> RowStream::json_header() {
  const auto begin = head_.begin();
  line_ = 1 + static_cast<size_t>(std::count(begin, std::find(begin, head_.end(), '{'), '\n'));
  Result<std::vector<std::string>> columns = json_columns(head_);
  if (!columns)
    return fail(Code::kCorrupt, "line %zu: %s", line_, columns.error().message().c_str());
  if (columns->empty())
    return fail(Code::kInvalidArgument, "line %zu: an object without values names no columns",
                line_);
  json_columns_ = std::move(*columns);
  return TableHeader{json_columns_, line_, false, {}};
}

Result<bool> RowStream::next_json(CsvRecord* record) {
  for (;; ++line_) {
    row_ = std::exchange(head_, {});
    if (row_.empty()) {
      PACELINE_ASSIGN(const bool more, take_line(&row_));
      if (!more && row_.empty()) return false;
    }
    if (row_.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    record->line = line_++;
    const Status status = read_json_row(row_, json_columns_, record);
    if (!status.ok())
      return fail(Code::kCorrupt, "line %zu: %s", record->line, status.message().c_str());
    return true;
  }
}

Result<bool> RowStream::next(CsvRecord* record) {
  if (!json_columns_.empty()) return next_json(record);
  while (in_head_) {
    Result<bool> found = in_head_->next(record);
    if (found && *found) {
      if (record->is_empty()) continue;
      return true;
    }
    in_head_.reset();
    line_ = 1 + static_cast<size_t>(std::count(head_.begin(), head_.end(), '\n'));
    if (!found) return found;
  }
  for (;;) {
    row_.clear();
    const size_t first_line = line_;
    for (size_t lines = 1;; ++lines) {
      PACELINE_ASSIGN(const bool more, take_line(&row_));
      if (!more && row_.empty()) return false;
      line_ = first_line + static_cast<size_t>(std::count(row_.begin(), row_.end(), '\n'));
      CsvScanner scanner(row_, separator_, first_line);
      Result<bool> found = scanner.next(record);
      if (!found && scanner.quote_is_open() && more && lines < kRowLinesMax) continue;
      if (!found) return found;
      if (*found && !record->is_empty()) return true;
      break;
    }
  }
}

}  // namespace paceline
