#include "server/init_windows.h"

#include <algorithm>

#include "runtime/base/json_text.h"
#include "runtime/base/status.h"
#include "server/init_run.h"

namespace paceline {

namespace {

// A window is to see what goes on in some seconds. Where few rows come in that time each tells by
// itself, as the measured tables do (docs/data.md).
constexpr double kWindowSeconds = 2;
constexpr uint32_t kWindowRowsMin = 16, kWindowRowsMax = 128;
// Neighbours may be so many usual steps apart: a late row is no gap, two lost ones are.
constexpr double kGapSteps = 3;
// Below it a pool would leave nothing to look at.
constexpr uint32_t kPooledRowsMin = 8;

uint32_t rows_for(double interval_s) {
  uint32_t rows = kWindowRowsMin;
  while (rows < kWindowRowsMax && rows * interval_s < kWindowSeconds) rows *= 2;
  return rows;
}

std::string convolution(unsigned filters) {
  return format_text(
      "[[layer]]\ntype = \"conv1d\"\nfilters = %u\nkernel = 5               # rows that a filter "
      "sees at once\npadding = 2\n[[layer]]\ntype = \"relu\"\n",
      filters);
}

}  // namespace

double WindowChoice::gap_max_s() const { return time->interval_s * kGapSteps; }

WindowChoice choose_windows(const TableProfile& table, const InitOptions& options) {
  WindowChoice choice;
  // Of a date and a clock the clock tells more.
  for (const ColumnProfile& column : table.columns)
    if (column.interval_s > 0 &&
        (choice.time == nullptr || column.interval_s < choice.time->interval_s))
      choice.time = &column;
  const bool forecast = !options.forecast.empty();
  if (forecast) choice.horizon = options.horizon;
  if (options.window > 0)
    choice.rows = options.window;
  else if (choice.time != nullptr && kWindowRowsMin * choice.time->interval_s <= kWindowSeconds)
    choice.rows = rows_for(choice.time->interval_s);
  else if (forecast)
    choice.rows = kWindowRowsMin;
  // What is forecast changes with every row; what goes on does not.
  choice.stride = forecast ? 1 : std::max(choice.rows / 4, 1u);
  return choice;
}

std::string window_keys(const WindowChoice& windows) {
  if (!windows.used()) return {};
  std::string text;
  if (windows.horizon > 0)
    text += format_text(
        "# The label is the number that stands `horizon` rows behind a sample's last row.\n"
        "task = \"forecast\"\nhorizon = %u\n",
        windows.horizon);
  text += format_text(
      "# A sample is so many rows, one after another; the next begins `stride` rows later.\n"
      "window = %u\nstride = %u\n",
      windows.rows, windows.stride);
  if (windows.time == nullptr) return text;
  return text + "time = " + json_quoted(windows.time->name) +
         format_text(
             "\ntime_unit = \"%s\"         # of times that are numbers\n"
             "gap_max = %.6g            # seconds; rows that are farther apart do not belong "
             "together. Here one comes\n                         # every %.6g s\n",
             windows.time->time_unit, windows.gap_max_s(), windows.time->interval_s);
}

std::string window_layers(const WindowChoice& windows, size_t outputs) {
  const std::string last = format_text("[[layer]]\ntype = \"dense\"\nunits = %zu\n\n", outputs);
  // When something happens in a window says little of what goes on, and much of what comes next.
  if (windows.horizon > 0 || windows.rows < kPooledRowsMin)
    return convolution(16) +
           "[[layer]]\ntype = \"flatten\"\n[[layer]]\ntype = \"dense\"\nunits = 32\n"
           "[[layer]]\ntype = \"relu\"\n" +
           last;
  return convolution(16) + "[[layer]]\ntype = \"maxpool1d\"\nkernel = 2\n" + convolution(32) +
         "[[layer]]\ntype = \"globalavgpool\"\n" + last;
}

std::string window_summary(const WindowChoice& windows) {
  if (!windows.used() && windows.time != nullptr)
    return format_text("windows   none, a row every %.6g s; --window ROWS takes several together\n",
                       windows.time->interval_s);
  if (!windows.used()) return {};
  std::string text =
      format_text("windows   %u rows, the next %u later", windows.rows, windows.stride);
  if (windows.horizon > 0) text += format_text("; the label is %u rows ahead", windows.horizon);
  if (windows.time != nullptr)
    text += format_text("; %s tells the time, a row every %.6g s", windows.time->name.c_str(),
                        windows.time->interval_s);
  return text + "; --window takes another, 1 is single rows\n";
}

}  // namespace paceline
