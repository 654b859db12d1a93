// What stands behind a pace's colon: whole numbers, separated by commas, each with a bound.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

struct PaceNumber {
  const char* what;  // "extra iterations"
  uint32_t fallback;
  uint32_t min, max;
};

// Fills values[i] from the i-th number of `text`; what is left out keeps its fallback.
// Errors: kInvalidArgument with what the pace takes and an example.
Status parse_pace_numbers(std::string_view pace, std::string_view text,
                          std::span<const PaceNumber> numbers, std::span<uint32_t> values);

template <size_t N>
Result<std::array<uint32_t, N>> parse_pace_numbers(std::string_view pace, std::string_view text,
                                                   const PaceNumber (&numbers)[N]) {
  std::array<uint32_t, N> values{};
  PACELINE_TRY(parse_pace_numbers(pace, text, std::span(numbers), std::span(values)));
  return values;
}

// For a pace that takes none.
Status parse_no_pace_numbers(std::string_view pace, std::string_view text);

}  // namespace paceline
