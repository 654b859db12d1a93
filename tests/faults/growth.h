// How a process grows: memory and open files over time, by least squares within each life.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/clock.h"

namespace paceline::test {

struct ProcessSize {
  double megabytes = 0;  // resident
  double files = 0;      // open
};
// None: it is gone.
std::optional<ProcessSize> size_of_process(pid_t pid);

// Lives that are shorter than kLifeMin say nothing; of each the beginning is left out, while
// buffers find their size.
class Growth {
 public:
  static constexpr TimeUs kLifeMin = from_ms(60'000);
  static constexpr TimeUs kBeginning = from_ms(20'000);

  void begin_life(TimeUs now);
  void observe(const ProcessSize& size, TimeUs now);

  // In an hour; none before there was a life that is long enough.
  struct Slope {
    double megabytes = 0, files = 0;
  };
  std::optional<Slope> slope() const;

 private:
  // Sums over the samples of one life, or of all lives around their own means.
  struct Sums {
    double count = 0, t = 0, tt = 0, mb = 0, tmb = 0, files = 0, tfiles = 0;
  };
  struct Spread {
    double tt = 0, tmb = 0, tfiles = 0;
  };
  Spread with_this_life() const;

  TimeUs began_ = 0, last_ = 0;
  Sums life_;
  Spread earlier_;
};

}  // namespace paceline::test
