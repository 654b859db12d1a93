// Numbers as people and programs write them, read by one rule on every machine: no locale, no libm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

// The float32 nearest to a decimal number: digits with at most one '.', an exponent, a sign.
// nullopt for all else: NaN, infinities, hexadecimal, "1_000", digits that are not ASCII, what is
// too large for float32, and what is too small even for a double.
std::optional<float> parse_float32(std::string_view text);

// A whole number, also as "3.0". nullopt if it is none or beyond 64 bits.
std::optional<int64_t> parse_whole(std::string_view text);

}  // namespace paceline
