// Keeps whoever is outside from filling the log: the first lines of a kind go through, then one
// every ten seconds, which says how many did not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/status.h"

namespace paceline {

class LogLimit {
 public:
  // What to put behind the line if it is to be written now; nothing if not.
  std::optional<std::string> pass(TimeUs now) {
    if (now - burst_began_ >= kPauseUs) {
      burst_began_ = now;
      passed_ = 0;
    }
    if (passed_ >= (held_back_ > 0 ? 1 : kBurst)) {
      ++held_back_;
      return std::nullopt;
    }
    ++passed_;
    const uint64_t count = std::exchange(held_back_, 0);
    if (count > 0) passed_ = kBurst;  // a flood goes on
    return count == 0 ? ""
                      : format_text(" (and %llu more)", static_cast<unsigned long long>(count));
  }

 private:
  static constexpr TimeUs kPauseUs = from_ms(10'000);
  static constexpr uint32_t kBurst = 5;

  TimeUs burst_began_ = 0;
  uint32_t passed_ = 0;
  uint64_t held_back_ = 0;  // since the last line that passed
};

}  // namespace paceline
