// What a run came to: for a person (a table, a plot) and for programs (summary.json).
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct WorkerSummary {
  std::string name;
  double waiting_share = 0;  // of its time, 0 to 1
  uint64_t training_steps = 0;
};

struct CurvePoint {
  double seconds = 0;
  uint64_t bytes_total = 0;  // up and down until then
  double accuracy = NAN;
  double loss = NAN;
};

struct RunSettings {
  std::string pace;
  std::string freq;
  std::string codec_up;
  std::string codec_down;
  std::string link;
  uint64_t seed = 0;
};

// The codecs from a moment on, and why.
struct CodecChange {
  double seconds = 0;
  std::string up, down;
  std::string reason_up, reason_down;
};

struct RunSummary {
  std::string name;       // "this run": heads its column and its curve
  double accuracy = NAN;  // of the published model, 0 to 1; NaN: never evaluated
  double seconds = 0;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
  uint64_t exchanges = 0;
  uint64_t rounds = 0;
  std::vector<WorkerSummary> workers;
  std::string model_checksum;  // eight hexadecimal digits
  RunSettings settings;
  std::vector<CodecChange> codecs;  // the first ones are those of the start
  std::vector<CurvePoint> curve;
  double target_accuracy = NAN;  // whose time and bytes are reported; NaN: none
};

// The first point of the curve whose mean accuracy with the two before it is at least `accuracy`:
// one lucky evaluation does not count. Null: never.
const CurvePoint* first_reaching(const RunSummary& run, double accuracy);

// Mean accuracy of the last five points of the curve; NaN where there are none.
double late_accuracy(const RunSummary& run);

// In all functions `baseline` is the run to compare with, or null.

// One JSON object with the fields accuracy, seconds, bytes_up, bytes_down, exchanges, rounds,
// waiting_share and training_steps (worker -> number), model_checksum, settings, codecs, curve, and
// baseline: null or the same object of the other run. What is not finite is null.
std::string summary_json(const RunSummary& run, const RunSummary* baseline);

// Writes summary_json(), atomically and durably.
Status write_summary(const std::string& path, const RunSummary& run, const RunSummary* baseline);

// Accuracy against time and against bytes, as SVG.
std::string summary_plot(const RunSummary& run, const RunSummary* baseline);

// Lines for a terminal, the last one with its newline; with a baseline both side by side and what
// was saved. `colour` adds ANSI colours.
std::string summary_table(const RunSummary& run, const RunSummary* baseline, bool colour);

// Whether colours are welcome on this file descriptor: a terminal, and NO_COLOR is not set
// (no-color.org).
bool colour_wanted(int descriptor);

}  // namespace paceline
