#include "runtime/pace/parameters.h"

#include <charconv>
#include <string>

#include "runtime/base/check.h"

namespace paceline {

namespace {

tl::unexpected<Status> wrong_form(std::string_view pace, std::span<const PaceNumber> numbers) {
  std::string takes, example;
  for (const PaceNumber& number : numbers) {
    takes += format_text("%s%s, %u to %u", takes.empty() ? "" : "; then ", number.what, number.min,
                         number.max);
    example += format_text("%s%u", example.empty() ? "" : ",", number.fallback);
  }
  const std::string name(pace);
  return fail(Code::kInvalidArgument, "pace %s takes %s: \"%s:%s\"", name.c_str(), takes.c_str(),
              name.c_str(), example.c_str());
}

}  // namespace

Status parse_pace_numbers(std::string_view pace, std::string_view text,
                          std::span<const PaceNumber> numbers, std::span<uint32_t> values) {
  PACELINE_CHECK(numbers.size() == values.size());
  for (size_t i = 0; i < numbers.size(); ++i) values[i] = numbers[i].fallback;
  if (text.empty()) return {};
  const char* at = text.data();
  const char* end = text.data() + text.size();
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto [rest, error] = std::from_chars(at, end, values[i]);
    if (error != std::errc() || values[i] < numbers[i].min || values[i] > numbers[i].max)
      return wrong_form(pace, numbers);
    if (rest == end) return {};
    if (*rest != ',') return wrong_form(pace, numbers);
    at = rest + 1;
  }
  return wrong_form(pace, numbers);
}

Status parse_no_pace_numbers(std::string_view pace, std::string_view text) {
  if (text.empty()) return {};
  const std::string name(pace);
  return fail(Code::kInvalidArgument, "pace %s takes no parameter; write just \"%s\"", name.c_str(),
              name.c_str());
}

}  // namespace paceline
