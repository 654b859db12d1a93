// When a message has gone through a link of a given rate: an emulated thin link, on any clock.
//
// The bucket holds no burst: bytes pass one after another, as bits do on a wire. A pure value; the
// owner waits.
#pragma once

#include <algorithm>
#include <cstddef>

#include "runtime/base/clock.h"

namespace paceline {

class TokenBucket {
 public:
  // 0 bits per second: no limit.
  explicit TokenBucket(double bits_per_s) : bits_per_s_(bits_per_s) {}

  // Takes `bytes` at `now`, behind all that was taken before; returns when the last of them is
  // through.
  TimeUs take(size_t bytes, TimeUs now) {
    free_at_ = std::max(free_at_, now) + duration_us(bytes);
    return free_at_;
  }

  // The same for a small message that doesn't queue: it slips in between the packets of what is
  // under way, and delays that by its own length.
  TimeUs take_urgent(size_t bytes, TimeUs now) {
    take(bytes, now);
    return now + duration_us(bytes);
  }

 private:
  TimeUs duration_us(size_t bytes) const {
    if (bits_per_s_ <= 0) return 0;
    return static_cast<TimeUs>(static_cast<double>(bytes) * 8e6 / bits_per_s_);
  }

  double bits_per_s_;
  TimeUs free_at_ = 0;
};

}  // namespace paceline
