#include "runtime/data/table_profile.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "runtime/data/load.h"
#include "runtime/data/number_text.h"
#include "runtime/data/schema.h"
#include "runtime/data/text_table.h"
#include "runtime/data/time_text.h"

namespace paceline {

namespace {

constexpr uint64_t kSampleBytesMax = uint64_t{4} << 30;
constexpr double kNumbersShareMin = 0.9;
constexpr size_t kCounterRowsMin = 10;
// Numbers that loggers write where a sensor gave none.
constexpr float kSentinels[] = {-200, -999, -9999, -99, 9999, 99999, -32768};

struct Cells {
  std::vector<float> numbers;
  std::map<std::string, size_t> distinct;
  std::map<std::string, size_t> missing;
  size_t words = 0;  // neither missing nor a number
  size_t times = 0;  // words that look like a time
  bool rises = true, falls = true;
  std::vector<double> clock;  // of cells that may be times
};

// Seconds since 1970 in the years from 2001 on, in one of the units that loggers write.
struct TimeUnit {
  const char* name;
  double seconds;
};
constexpr double kEpochMin = 1e9, kEpochMax = 5e9;
constexpr TimeUnit kTimeUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};

// Digits with the marks of dates and clocks between them, and perhaps a name of a zone or month.
bool looks_like_time(std::string_view cell) {
  size_t digits = 0, marks = 0, letters = 0;
  for (const char c : cell) {
    digits += c >= '0' && c <= '9';
    marks += c == ':' || c == '-' || c == '/' || c == '.';
    letters += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  return digits >= 3 && marks >= 2 && letters <= 4;
}

class Profiler {
 public:
  explicit Profiler(const TableHeader& header, char separator)
      : header_(header), comma_allowed_(separator == ';'), cells_(header.names.size()) {
    const DataSchema defaults;
    missing_codes_.insert(defaults.missing_values.begin(), defaults.missing_values.end());
  }

  void add_odd() { ++odd_rows_; }
  void add(const CsvRecord& record) {
    if (record.cells.size() != cells_.size()) return add_odd();
    ++rows_;
    for (size_t i = 0; i < cells_.size(); ++i) add_cell(record.cells[i], &cells_[i]);
  }

  Result<TableProfile> finish() {
    if (rows_ == 0) return fail(Code::kInvalidArgument, "a header, but no rows below it");
    find_sentinels();
    TableProfile profile;
    profile.row_count = rows_;
    profile.odd_row_count = odd_rows_;
    profile.notes = header_.notes;
    std::set<std::string> codes;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (header_.names[i].empty()) continue;
      profile.columns.push_back(describe(header_.names[i], &cells_[i]));
      for (const auto& [code, count] : cells_[i].missing) codes.insert(code);
    }
    profile.missing_values.assign(codes.begin(), codes.end());
    return profile;
  }

  // Needs the codes, so it takes a second pass over the rows.
  bool has_missing(const CsvRecord& record, const std::vector<std::string>& codes,
                   const std::vector<float>& numbers) const {
    for (size_t i = 0; i < record.cells.size() && i < header_.names.size(); ++i) {
      if (header_.names[i].empty()) continue;
      if (std::ranges::find(codes, record.cells[i]) != codes.end()) return true;
      if (numbers.empty()) continue;
      const std::optional<float> number = number_of(record.cells[i]);
      if (number && std::ranges::find(numbers, *number) != numbers.end()) return true;
    }
    return false;
  }

 private:
  std::optional<float> number_of(std::string_view cell) const {
    if (const std::optional<float> number = parse_float32(cell)) return number;
    const size_t comma = cell.find(',');
    if (!comma_allowed_ || comma == std::string_view::npos) return std::nullopt;
    std::string with_point(cell);
    with_point[comma] = '.';
    return parse_float32(with_point);
  }

  void add_cell(std::string_view cell, Cells* cells) {
    if (missing_codes_.contains(cell)) {
      ++cells->missing[std::string(cell)];
      return;
    }
    if (const auto known = cells->distinct.find(std::string(cell)); known != cells->distinct.end())
      ++known->second;
    else if (cells->distinct.size() <= ColumnProfile::kDistinctMax)
      cells->distinct.emplace(cell, 1);
    if (const std::optional<float> number = number_of(cell)) {
      if (!cells->numbers.empty()) {
        cells->rises &= *number > cells->numbers.back();
        cells->falls &= *number < cells->numbers.back();
      }
      cells->numbers.push_back(*number);
      if (static_cast<double>(*number) >= kEpochMin) add_time(cell, cells);
    } else {
      ++cells->words;
      cells->times += looks_like_time(cell);
      add_time(cell, cells);
    }
  }

  static void add_time(std::string_view cell, Cells* cells) {
    if (const std::optional<double> time = parse_time(cell, 1)) cells->clock.push_back(*time);
  }

  // The usual step of times that mostly go on from row to row; 0 where these do not.
  static double usual_step(const std::vector<double>& clock, double unit_s) {
    std::vector<double> steps;
    size_t back = 0;
    for (size_t i = 1; i < clock.size(); ++i) {
      const double step = (clock[i] - clock[i - 1]) * unit_s;
      back += step < 0;
      if (step > 0) steps.push_back(step);
    }
    if (steps.empty() || back * 10 > clock.size()) return 0;
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end());
    return *middle;
  }

  static void find_clock(const Cells& cells, size_t known, ColumnProfile* column) {
    const auto times = static_cast<double>(cells.clock.size());
    if (cells.clock.size() < kCounterRowsMin ||
        times < kNumbersShareMin * static_cast<double>(known))
      return;
    const bool numbers = cells.words == 0;
    for (const TimeUnit& unit : kTimeUnits) {
      const double first = cells.clock.front() * unit.seconds;
      if (numbers && !(first >= kEpochMin && first < kEpochMax)) continue;
      column->interval_s = usual_step(cells.clock, unit.seconds);
      column->time_unit = unit.name;
      break;
    }
    if (column->interval_s > 0) column->kind = ColumnKind::kTime;
  }

  // A code is believed for the whole table once it stands far outside of one column's other values.
  void find_sentinels() {
    for (const float code : kSentinels) {
      const bool believed = std::ranges::any_of(cells_, [&](const Cells& cells) {
        float low = INFINITY, high = -INFINITY;
        size_t count = 0;
        for (const float value : cells.numbers) {
          count += value == code;
          if (value == code) continue;
          if (value < low) low = value;
          if (value > high) high = value;
        }
        const float room = high - low;
        return count > 1 && room > 0 && (code < low - room || code > high + room);
      });
      if (believed)
        for (Cells& cells : cells_) take_out(code, &cells);
    }
  }

  void take_out(float code, Cells* cells) {
    const size_t taken = static_cast<size_t>(std::erase(cells->numbers, code));
    if (taken == 0) return;
    cells->missing[format_text("%g", static_cast<double>(code))] += taken;
    std::erase_if(cells->distinct, [&](const auto& entry) {
      const std::optional<float> number = number_of(entry.first);
      return number && *number == code;
    });
  }

  ColumnProfile describe(const std::string& name, Cells* cells) const {
    ColumnProfile column;
    column.name = name;
    column.distinct = std::move(cells->distinct);
    for (const auto& [code, count] : cells->missing) column.missing_count += count;
    const size_t known = cells->numbers.size() + cells->words;
    const bool numeric =
        static_cast<double>(cells->numbers.size()) >= kNumbersShareMin * static_cast<double>(known);
    if (known == 0 || column.distinct.size() == 1)
      column.kind = ColumnKind::kConstant;
    else if (!numeric)
      column.kind = cells->times * 2 > cells->words ? ColumnKind::kTime : ColumnKind::kWords;
    else if ((cells->rises || cells->falls) && cells->numbers.size() >= kCounterRowsMin)
      column.kind = ColumnKind::kCounter;
    if (numeric) column.odd_count = cells->words;
    find_clock(*cells, known, &column);
    measure(cells->numbers, &column);
    return column;
  }

  static void measure(const std::vector<float>& numbers, ColumnProfile* column) {
    if (numbers.empty()) return;
    const auto count = static_cast<double>(numbers.size());
    column->lowest = column->highest = static_cast<double>(numbers.front());
    double sum = 0;
    for (const float number : numbers) {
      const auto value = static_cast<double>(number);
      column->lowest = value < column->lowest ? value : column->lowest;
      column->highest = value > column->highest ? value : column->highest;
      sum += value;
    }
    column->mean = sum / count;
    double squares = 0;
    for (const float number : numbers) {
      const double from_mean = static_cast<double>(number) - column->mean;
      squares += from_mean * from_mean;
    }
    column->deviation = std::sqrt(squares / count);
  }

  const TableHeader& header_;
  bool comma_allowed_;
  std::vector<Cells> cells_;
  std::set<std::string, std::less<>> missing_codes_;
  size_t rows_ = 0;
  size_t odd_rows_ = 0;
};

Result<TableProfile> profile_text(std::string_view text, const ReadOptions& options) {
  PACELINE_ASSIGN(TextTable table, TextTable::open(text, options));
  CsvScanner& scanner = table.scanner();
  CsvScanner again = scanner;
  Profiler profiler(table.header(), scanner.separator());
  CsvRecord record;
  for (;;) {
    PACELINE_ASSIGN(const bool more, scanner.next(&record));
    if (!more) break;
    if (record.is_empty()) continue;
    if (table.spread(&record))
      profiler.add_odd();
    else
      profiler.add(record);
  }
  PACELINE_ASSIGN(TableProfile profile, profiler.finish());
  profile.label = table.label();
  std::vector<float> numbers;
  for (const std::string& code : profile.missing_values)
    if (const std::optional<float> number = parse_float32(code)) numbers.push_back(*number);
  while (!profile.missing_values.empty()) {
    PACELINE_ASSIGN(const bool more, again.next(&record));
    if (!more) break;
    profile.missing_row_count += !record.is_empty() && !table.spread(&record) &&
                                 profiler.has_missing(record, profile.missing_values, numbers);
  }
  return profile;
}

}  // namespace

Result<TableProfile> profile_table(const std::string& path, const ReadOptions& options) {
  PACELINE_ASSIGN(const Bytes content, load_file(path, kSampleBytesMax));
  Result<TableProfile> profile = profile_text(text_of(content), options);
  if (!profile) return fail_in_file(path, profile.error());
  return profile;
}

}  // namespace paceline
