#include "runtime/data/time_text.h"

#include <charconv>
#include <cstdint>

namespace paceline {

namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() const { return text_.empty(); }
  bool take(char mark) {
    if (!text_.starts_with(mark)) return false;
    text_.remove_prefix(1);
    return true;
  }
  // One of `marks`, or 0.
  char take_any(std::string_view marks) {
    if (text_.empty() || marks.find(text_[0]) == std::string_view::npos) return 0;
    const char mark = text_[0];
    text_.remove_prefix(1);
    return mark;
  }
  // A number of `digits_min` to `digits_max` digits, at most `largest`.
  std::optional<int64_t> number(size_t digits_min, size_t digits_max, int64_t largest) {
    int64_t value = 0;
    size_t digits = 0;
    while (digits < digits_max && digits < text_.size() && text_[digits] >= '0' &&
           text_[digits] <= '9')
      value = value * 10 + (text_[digits++] - '0');
    if (digits < digits_min || value > largest) return std::nullopt;
    text_.remove_prefix(digits);
    return value;
  }
  std::string_view rest() const { return text_; }

 private:
  std::string_view text_;
};

// Days since 1970-01-01 of a day in the Gregorian calendar: years from March on, so that the leap
// day is the last (E. M. Reingold, N. Dershowitz, Calendrical Calculations).
int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t months_since_march = (month + 9) % 12;
  const int64_t day_of_year = (153 * months_since_march + 2) / 5 + day - 1;
  return year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719'468;
}

std::optional<double> read_date(Reader* text) {
  const auto year = text->number(4, 4, 9999);
  const char mark = year ? text->take_any("-/.") : '\0';
  if (mark == 0) return std::nullopt;
  const auto month = text->number(1, 2, 12);
  if (!month || *month == 0 || !text->take(mark)) return std::nullopt;
  const auto day = text->number(1, 2, 31);
  if (!day || *day == 0) return std::nullopt;
  return static_cast<double>(days_since_1970(*year, *month, *day)) * 86'400;
}

std::optional<double> read_clock(Reader* text) {
  const auto hours = text->number(1, 2, 24);
  const char mark = hours ? text->take_any(":.") : '\0';
  if (mark == 0) return std::nullopt;
  const auto minutes = text->number(2, 2, 59);
  if (!minutes) return std::nullopt;
  double seconds = static_cast<double>(*hours * 3600 + *minutes * 60);
  if (!text->take(mark)) return seconds;
  const auto whole = text->number(2, 2, 60);
  if (!whole) return std::nullopt;
  seconds += static_cast<double>(*whole);
  double digit_value = 1;
  if (text->take_any(".,") == 0) return seconds;
  while (const auto digit = text->number(1, 1, 9)) {
    digit_value /= 10;
    seconds += static_cast<double>(*digit) * digit_value;
  }
  return seconds;
}

// Seconds that the clock is ahead of UTC. Nothing: it says none.
std::optional<double> read_zone(Reader* text) {
  if (text->at_end() || text->take('Z')) return 0;
  const char sign = text->take_any("+-");
  const auto hours = sign != 0 ? text->number(2, 2, 18) : std::nullopt;
  if (!hours) return std::nullopt;
  text->take(':');
  const auto minutes = text->at_end() ? std::optional<int64_t>(0) : text->number(2, 2, 59);
  if (!minutes) return std::nullopt;
  const auto ahead = static_cast<double>(*hours * 3600 + *minutes * 60);
  return sign == '-' ? -ahead : ahead;
}

std::optional<double> read_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool finite = value - value == 0;
  if (error != std::errc() || end != text.data() + text.size() || !finite) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> parse_time(std::string_view text, double unit_s) {
  if (const std::optional<double> number = read_number(text)) return *number * unit_s;
  Reader reader(text);
  std::optional<double> date = read_date(&reader);
  if (date && reader.at_end()) return date;
  if (date && reader.take_any(" T") == 0) return std::nullopt;
  if (!date) reader = Reader(text);
  const std::optional<double> clock = read_clock(&reader);
  if (!clock) return std::nullopt;
  const std::optional<double> ahead = read_zone(&reader);
  if (!ahead || !reader.at_end()) return std::nullopt;
  return date.value_or(0) + *clock - *ahead;
}

}  // namespace paceline
