#include "runtime/pace/iteration_plan.h"

#include <algorithm>

namespace paceline {

namespace {

constexpr double kTimeKept = 0.8;  // of the smoothed iteration time
constexpr uint32_t kIterationsMax = 32;
constexpr double kDeadBand = 0.15;

}  // namespace

IterationPlan::Worker& IterationPlan::worker_of(uint32_t worker_id) {
  if (worker_id >= workers_.size()) workers_.resize(size_t{worker_id} + 1);
  return workers_[worker_id];
}

void IterationPlan::observe(const PaceRow& row) {
  Worker& worker = worker_of(row.worker_id);
  const auto took = static_cast<double>(row.iteration_us);
  worker.iteration_us =
      worker.iteration_us == 0 ? took : kTimeKept * worker.iteration_us + (1 - kTimeKept) * took;
}

void IterationPlan::follow(const ClockTable& members) {
  for (size_t i = 0; i < workers_.size(); ++i)
    if (members.find(static_cast<uint32_t>(i)) == nullptr) workers_[i] = {};
}

void IterationPlan::replan(const ClockTable& members) {
  double longest = 0;
  members.for_each([&](const PaceRow& row) {
    longest = std::max(longest, worker_of(row.worker_id).iteration_us);
  });
  members.for_each([&](const PaceRow& row) {
    Worker& worker = worker_of(row.worker_id);
    if (worker.iteration_us <= 0) return;
    // A hair more than the quotient: equal times give whole numbers, however they were smoothed.
    const double fits = slowest_iterations_ * longest / worker.iteration_us * (1 + 1e-9);
    const auto wanted = static_cast<uint32_t>(std::clamp(fits, 1.0, double{kIterationsMax}));
    const double change =
        worker.iterations > wanted ? worker.iterations - wanted : wanted - worker.iterations;
    if (worker.planned && change < kDeadBand * worker.iterations) return;
    worker.iterations = wanted;
    worker.planned = true;
  });
}

}  // namespace paceline
