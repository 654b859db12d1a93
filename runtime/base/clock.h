// Time as the pure cores see it: a number that somebody hands in.
#pragma once

#include <cstdint>

namespace paceline {

// Microseconds on a clock that never goes back. In a daemon the system's monotonic clock, in the
// simulator a counter. Has no meaning outside the process.
using TimeUs = int64_t;

inline constexpr TimeUs kNever = INT64_MAX;

constexpr TimeUs from_ms(int64_t ms) { return ms * 1000; }
constexpr double to_seconds(TimeUs us) { return static_cast<double>(us) * 1e-6; }

// The monotonic clock of this machine. For daemons and benchmarks; a core never calls it.
TimeUs monotonic_now_us();

}  // namespace paceline
