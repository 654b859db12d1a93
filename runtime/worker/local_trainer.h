// A board's rows on a compute backend: what WorkerCore calls to compute.
#pragma once

#include <memory>
#include <string>

#include "runtime/worker/local_data.h"
#include "runtime/worker/worker_core.h"

namespace paceline {

// At most so many held-out rows are evaluated, evenly spread: enough for a trend, cheap enough to
// do often.
inline constexpr size_t kEvaluatedRowsMax = 512;

// With fewer training rows there is nothing to learn from: a worker whose rows still come waits.
inline constexpr size_t kTrainedRowsMin = 20;

// What a worker says of its rows.
RowCounts rows_of(const LocalData& data);

// A factory over `data`, which it shares. Rows come in an order drawn anew each epoch from the
// run's seed and `name`; the last batch of an epoch is filled from the next one.
//   backend  as make_trainer()
LocalRunFactory make_local_run_factory(std::shared_ptr<LocalData> data, std::string name,
                                       std::string backend);

}  // namespace paceline
