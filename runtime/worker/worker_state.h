// What of a worker outlives its process, and as which bytes: what it has produced that is not
// applied yet, and what tells whether that is still true when it comes back.
//
// Pure. docs/reliability.md tells what is promised.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/quant/codec.h"
#include "runtime/train/optimizer.h"
#include "runtime/train/statistics.h"
#include "runtime/wire/messages.h"

namespace paceline {

// Where a board's stream of rows stands: enough to go on with the same rows.
struct RowCursor {
  uint64_t epoch = 0;
  uint64_t row = 0;  // of the epoch's order
  bool operator==(const RowCursor&) const = default;
};

// An update that was cut and has no verdict yet.
struct PendingUpdate {
  uint64_t sequence = 0;
  uint64_t base_publication = 0;
  uint32_t base_checksum = 0;
  uint64_t generation = 0;
  uint64_t round = 0;
  uint32_t steps = 0;
  bool has_update = false;
  float training_loss = 0;
  EncodedUpdate update;  // its checksum goes on over the statistics
  Statistics statistics;
  std::vector<Evaluation> evaluations;  // not saved: the fleet asks for newer ones
  TimeUs waited_us = 0;
  uint32_t next_chunk = 0;  // to push; not saved
};

struct WorkerState {
  // Whose it is: sequences belong to a name, residuals to a run.
  std::string name;
  uint64_t run_checksum = 0;
  // The tag: what the server had settled when the rest was true.
  uint64_t generation = 0;
  uint64_t last_settled = 0;
  std::optional<PendingUpdate> pending;

  uint64_t next_sequence = 1;
  uint64_t round = 0;
  uint32_t tau = 1;
  RowCursor cursor;
  double lost_gradient_total = 0;
  std::deque<double> update_norms;
  std::deque<double> residual_norms;
  std::vector<float> residual;
  OptimizerState optimizer;  // its vectors are as long as the residual
};

inline constexpr size_t kNormWindow = 20;  // exchanges that update_norms and residual_norms span

Bytes encode_state(const WorkerState& state);

// Errors: kCorrupt. What it returns is within the limits of limits.h; payloads are not verified:
// that needs the run's layout.
Result<WorkerState> decode_state(ByteSpan bytes);

// Whether what was saved is still true, by what the server says of this worker: what was saved is
// neither applied already nor part of an update that came after it.
bool still_true(const WorkerState& state, const Welcome& welcome);

}  // namespace paceline
