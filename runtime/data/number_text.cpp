#include "runtime/data/number_text.h"

#include <charconv>
#include <iterator>
#include <system_error>

namespace paceline {

namespace {

// std::from_chars takes no '+', but takes "inf" and "nan"; both are settled before it is called.
bool strip_plus(std::string_view* text) {
  if (!text->starts_with('+')) return true;
  text->remove_prefix(1);
  return !text->starts_with('-');
}

// Characters of a decimal number only: from_chars would take "inf" and "nan", too.
bool is_plain(std::string_view text) {
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E') return false;
  }
  return true;
}

template <class T>
std::errc parse_all(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (error != std::errc()) return error;
  return end == text.data() + text.size() ? std::errc() : std::errc::invalid_argument;
}

// The common case: few enough digits that they and the power of ten are exact as float32, so that
// the one division rounds as the decimal number does (Clinger 1990).
std::optional<float> parse_short(std::string_view text) {
  static constexpr float kPowersOfTen[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                           1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
  constexpr uint32_t kExactMax = 1u << 24;
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  uint32_t digits = 0;
  size_t digit_count = 0, decimals = 0;
  bool past_point = false;
  for (const char c : text) {
    const uint32_t digit = static_cast<unsigned char>(c) - uint32_t{'0'};
    if (digit <= 9) {
      digits = digits * 10 + digit;
      if (digits > kExactMax) return std::nullopt;
      ++digit_count;
      decimals += past_point;
    } else if (c == '.' && !past_point) {
      past_point = true;
    } else {
      return std::nullopt;
    }
  }
  if (digit_count == 0 || decimals >= std::size(kPowersOfTen)) return std::nullopt;
  const float value = static_cast<float>(digits) / kPowersOfTen[decimals];
  return negative ? -value : value;
}

}  // namespace

std::optional<float> parse_float32(std::string_view text) {
  if (const std::optional<float> value = parse_short(text)) return value;
  if (!is_plain(text)) return std::nullopt;
  if (!strip_plus(&text)) return std::nullopt;
  float value = 0;
  const std::errc error = parse_all(text, &value);
  if (error == std::errc()) return value;
  if (error != std::errc::result_out_of_range) return std::nullopt;
  // Out of range at either end; a double tells which, and a tiny one rounds to 0.
  double wide = 0;
  const std::errc wide_error = parse_all(text, &wide);
  if (wide_error == std::errc() && wide > -1 && wide < 1) return static_cast<float>(wide);
  return std::nullopt;
}

std::optional<int64_t> parse_whole(std::string_view text) {
  if (!strip_plus(&text)) return std::nullopt;
  const size_t point = text.find('.');
  if (point != std::string_view::npos) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, point);
  }
  int64_t value = 0;
  if (parse_all(text, &value) != std::errc()) return std::nullopt;
  return value;
}

}  // namespace paceline
