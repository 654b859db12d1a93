// One run of an experiment: its data dealt out, its boards made, its fleet driven under the virtual
// clock until the planned end, every event checked.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "runtime/data/dataset.h"
#include "server/report/run_record.h"
#include "simulate/experiment.h"
#include "simulate/fleet.h"

namespace paceline {

// Rows that all runs share; each worker of each run has a copy of its own.
struct ExperimentData {
  Dataset rows;
  uint32_t checksum = 0;  // of the files
};

// Errors: as read_dataset(); kInvalidArgument if there are too few rows.
Result<std::shared_ptr<const ExperimentData>> load_experiment_data(const DataPlan& plan);

struct RunHooks {
  const std::atomic<bool>* stop = nullptr;  // ends the run without a result
  std::function<void(const FleetSpan&)> tracer;
};

// Null: it was stopped. A record with `broken` set ends at the event that broke an invariant. The
// same plan and data give the same record. Errors: what ServerCore::make() and the data refuse.
Result<std::unique_ptr<RunRecord>> run_plan(const RunPlan& plan, const ExperimentData& data,
                                            const RunHooks& hooks);

}  // namespace paceline
