// Trains on what a ring holds at the moment: what WorkerCore calls where rows still come.
#pragma once

#include <memory>

#include "runtime/base/random.h"
#include "runtime/train/trainer.h"
#include "runtime/worker/local_data.h"
#include "runtime/worker/worker_core.h"

namespace paceline {

// Samples are drawn anew for each step, each as likely as another: there are no epochs. With fewer
// than kTrainedRowsMin in the ring it is not ready. `data` has a live source that was started.
std::unique_ptr<LocalTrainer> make_live_trainer(std::shared_ptr<LocalData> data,
                                                std::unique_ptr<Trainer> trainer,
                                                const DataSchema& schema, Random draws,
                                                uint64_t noise);

}  // namespace paceline
