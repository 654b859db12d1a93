// Times as loggers write them, read by one rule on every machine: no locale, no time zone's table.
#pragma once

#include <optional>
#include <string_view>

namespace paceline {

// Seconds since 1970, or since midnight where there is no date; nullopt for what is no time.
//
//   2015-02-04 17:51:00.25            T for the blank, / or . for the dash; Z or +01:00 behind
//   2015-02-04, 17:51:00, 17:51, 17.51.00
//   1422985860123                     a number, times `unit_s`
//
// The year comes first: which of 04/02/2015 is the month, nobody knows.
std::optional<double> parse_time(std::string_view text, double unit_s);

}  // namespace paceline
