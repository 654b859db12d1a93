#include "runtime/base/clock.h"

#include <chrono>

namespace paceline {

TimeUs monotonic_now_us() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

}  // namespace paceline
