// What one run of an experiment came to, and one line of JSON for it.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct RecordPoint {
  double seconds = 0;
  uint64_t bytes = 0;      // up and down until then, of all workers
  uint64_t exchanges = 0;  // of all workers
  double accuracy = NAN;   // of the published model on the control set, 0 to 1
  double loss = NAN;
  bool operator==(const RecordPoint&) const = default;
};

// Where the curve's mean of three reached an accuracy first; seconds NaN: never.
struct TargetRecord {
  double accuracy = 0;
  double seconds = NAN;
  uint64_t bytes = 0;
  uint64_t exchanges = 0;
};

// What the server chose, from a moment on, and why.
struct RecordDecision {
  double seconds = 0;
  std::string pace;  // the rule in force
  uint32_t tau = 0;
  std::string codec_up;
  std::string codec_down;
  std::vector<std::string> reasons;  // of what changed, in the order above
};

struct RunRecord {
  size_t point = 0;                                           // of the grid
  std::vector<std::pair<std::string, std::string>> settings;  // what the grid varies, in its order
  uint64_t seed = 0;
  double seconds = 0;           // of virtual time
  double final_accuracy = NAN;  // mean of the last five evaluations
  double best_accuracy = NAN;
  uint64_t bytes_up = 0;
  uint64_t bytes_down = 0;
  uint64_t exchanges = 0;
  uint64_t rounds = 0;
  uint64_t steps = 0;
  uint64_t refused = 0;      // updates that came too late, or whose round had closed
  uint64_t discarded = 0;    // steps that had become pointless before they ended
  double waiting_share = 0;  // of all workers' time
  std::string checksum;      // of the last published model
  std::vector<TargetRecord> targets;
  std::vector<RecordPoint> curve;
  std::vector<RecordDecision> decisions;
  std::string broken;  // which invariant, when and where; empty: all held
};

// The first point whose mean accuracy with the two before it is at least `accuracy`.
TargetRecord target_record(const std::vector<RecordPoint>& curve, double accuracy);

// One JSON object without a line's end; what is not finite is null.
std::string record_json(const RunRecord& record);
// Reverses it: record_json() of the result is the same text. Errors: kCorrupt.
Result<RunRecord> parse_record(std::string_view json);

}  // namespace paceline
