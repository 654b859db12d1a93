#include "server/report/ticks.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/status.h"

namespace paceline {

namespace {

// The largest unit that leaves a number of at least 1, "s" up to two minutes and so on.
struct Scale {
  double factor;
  const char* suffix;
};

Scale time_scale(double seconds) {
  if (seconds < 120) return {1, " s"};
  if (seconds < 7200) return {60, " min"};
  return {3600, " h"};
}

Scale byte_scale(double bytes) {
  if (bytes < 1e3) return {1, " B"};
  if (bytes < 1e6) return {1e3, " kB"};
  if (bytes < 1e9) return {1e6, " MB"};
  return {1e9, " GB"};
}

// `largest` decides for all ticks of an axis, so that they share a unit.
Scale scale_of(double largest, Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return {1, ""};
    case Unit::kPercent:
      return {0.01, " %"};
    case Unit::kSeconds:
      return time_scale(std::abs(largest));
    case Unit::kBytes:
      return byte_scale(std::abs(largest));
  }
  return {1, ""};
}

std::string scaled_text(double value, const Scale& scale) {
  const double scaled = value / scale.factor;
  // %.3g would turn 1234 into 1.23e+03.
  return std::abs(scaled) >= 999.5 ? format_text("%.0f%s", scaled, scale.suffix)
                                   : format_text("%.3g%s", scaled, scale.suffix);
}

// 1, 2 or 5 times a power of ten, at or above `value` > 0.
double round_step(double value) {
  const double decade = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * decade >= value * (1 - 1e-9)) return factor * decade;
  return 10 * decade;
}

}  // namespace

std::string unit_text(double value, Unit unit) {
  if (!std::isfinite(value)) return "not known";
  return scaled_text(value, scale_of(value, unit));
}

double Axis::position(double value) const {
  if (logarithmic) return std::log(value / low) / std::log(high / low);
  return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, Unit unit, int tick_count) {
  PACELINE_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high && tick_count > 0);
  // A flat curve still needs an axis around it.
  if (high - low <= 1e-9 * std::max(std::abs(low), std::abs(high))) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= low > 0 && margin > low ? low : margin;
    high += margin;
  }
  const Scale scale = scale_of(high, unit);
  const double step = round_step((high - low) / scale.factor / tick_count) * scale.factor;
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  Axis axis{false, first * step, last * step, {}};
  for (double i = first; i <= last; ++i)
    axis.ticks.push_back({i * step, scaled_text(i * step, scale)});
  return axis;
}

Axis logarithmic_axis(double low, double high, Unit unit) {
  PACELINE_CHECK(std::isfinite(high) && low > 0 && low <= high);
  const double top = round_step(high > low ? high : low * 2);
  Axis axis{true, 0, top, {}};
  const double decades = std::log10(top / low);
  for (double decade = std::floor(std::log10(low)); std::pow(10, decade) <= top * 1.001; ++decade)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10, decade);
      if (value > top * 1.001) break;
      // The axis starts at the last round number that is not above `low`.
      if (value <= low * (1 + 1e-9)) {
        axis.low = value;
        axis.ticks.clear();
      }
      const bool labelled = factor == 1.0 || decades < 2.5;
      axis.ticks.push_back({value, labelled ? unit_text(value, unit) : ""});
    }
  return axis;
}

}  // namespace paceline
