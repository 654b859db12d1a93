// Synchronous rounds without a fleet: what codecs alone do to a run. Every board takes `tau` local
// steps, its update goes through the up codec, the mean through the down codec; the same calls as
// in server and worker, without time, network or policies, so that all runs of a seed have the same
// start and the same batches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/quant/codec.h"
#include "runtime/train/trainer.h"
#include "runtime/worker/local_trainer.h"

namespace paceline {

struct RoundsTask {
  std::string run;  // as workers are sent it: model, batch, how values are scaled
  std::vector<std::shared_ptr<LocalData>> boards;
  Dataset measured;  // accuracy is of these rows
};

struct RoundsOptions {
  CodecId up = CodecId::kRaw32;
  CodecId down = CodecId::kRaw32;
  uint32_t tau = 1;
  uint64_t rounds = 500;
  double rate = 0.05;
  double rate_end = 0.1;  // share of the rate at the end; it falls linearly in the second half
  double momentum = 0.9;
  uint64_t seed = 1;                // of the model's start, the rotations and the order of rows
  uint64_t warmup_rounds = 0;       // that go up in Q8
  bool feedback = true;             // false: what a codec loses upwards is lost
  bool rotation_per_board = false;  // false: one rotation a round for all boards, as in the product
};

struct RoundsResult {
  double accuracy = 0;  // mean of the last five evaluations, 2.5 % of the rounds apart
  double bytes_up = 0;  // payloads of one board's exchange, mean over the run
  double bytes_down = 0;
  // Mean over the rounds of |mean of what arrived - mean of what was meant|^2 / |the latter|^2.
  double error = 0;
};

// A board that trains on these rows and holds none of them back.
std::shared_ptr<LocalData> board_of(const Dataset& all, std::span<const uint32_t> rows);

// Of all rows of `data`.
double accuracy_of(Trainer& trainer, const Dataset& data, std::span<const float> parameters);

// Errors: as parse_run(); kInvalidArgument for rows that do not fit the model; kCorrupt if the run
// has diverged.
Result<RoundsResult> run_rounds(const RoundsTask& task, const RoundsOptions& options);

}  // namespace paceline
