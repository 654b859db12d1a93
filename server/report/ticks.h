// Where an axis has its ticks and what is written at them.
#pragma once

#include <string>
#include <vector>

namespace paceline {

enum class Unit { kNone, kPercent, kSeconds, kBytes };

// "12.5 %" (of a share), "1.5 h", "30 s", "12.3 MB" (SI), "0.25": three digits.
std::string unit_text(double value, Unit unit);

struct Tick {
  double value;
  std::string label;
};

struct Axis {
  bool logarithmic = false;
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks;

  // 0 at the low end, 1 at the high end. value > 0 on a logarithmic axis.
  double position(double value) const;
};

// An axis from a round number at or below `low` to one at or above `high`, both finite and, for a
// logarithmic axis, positive. About `tick_count` ticks at 1, 2 or 5 times powers of ten.
Axis linear_axis(double low, double high, Unit unit, int tick_count);
Axis logarithmic_axis(double low, double high, Unit unit);

}  // namespace paceline
