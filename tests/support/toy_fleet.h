// A small learning task and a fleet of workers on it, for simulations: three overlapping clouds of
// points in eight dimensions, an 8-16-3 net, a few hundred rows per worker.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/worker/local_trainer.h"
#include "simulate/fleet.h"

namespace paceline::test {

struct ToyOptions {
  size_t workers = 4;
  size_t rows_per_worker = 320;
  uint32_t batch = 32;
  double rate = 0.05;
  double momentum = 0.9;
  uint32_t hidden = 16;
  bool batch_norm = false;  // first of all, over what rows hold
  bool skewed = false;      // worker i holds mostly class i % 3
  std::string backend = "reference";
};

std::string toy_run_text(const ToyOptions& options);

// Rows of worker `index`, the same for every call.
std::shared_ptr<LocalData> toy_data(const ToyOptions& options, size_t index);

// Names w0, w1, ...; every step takes 5 ms; server options: pace bsp, freq fixed:1, raw32 both
// ways, min_workers = all. Tests change what they are about.
FleetOptions toy_fleet(const ToyOptions& options);

// Of `parameters` on all workers' training rows.
EvaluationCounts toy_counts(const ToyOptions& options, std::span<const float> parameters);
// Their mean loss.
double toy_loss(const ToyOptions& options, std::span<const float> parameters);

}  // namespace paceline::test
