// Keeps a worker's state and the newest model in a folder, within a budget of written bytes: cards
// wear out.
//
// A folder that can't be written is a reason to go on without, said once; a broken file is set
// aside and named. Neither is a reason not to start. Single thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/clock.h"
#include "runtime/base/state_store.h"
#include "runtime/worker/worker_core.h"

namespace paceline {

struct StateOptions {
  std::string folder;      // empty: nothing outlives the process
  double mb_per_day = 50;  // written at most; 0: only at an orderly stop
};

class StateKeeper {
 public:
  // Takes up what an earlier life of `core` has left there. Errors: kUnavailable if another program
  // uses the folder.
  static Result<StateKeeper> open(const StateOptions& options, WorkerCore* core);

  // Of state and model, as one save writes them.
  uint64_t saved_bytes() const { return with_model(core_->save().size()); }
  // Saves where that is due.
  void tick(TimeUs now);
  // Saves whatever the budget says; for an orderly stop.
  void save_last();

 private:
  uint64_t with_model(uint64_t state_bytes) const;
  StateKeeper(StateOptions options, WorkerCore* core) : options_(std::move(options)), core_(core) {}
  void save(const Bytes& state, bool last);
  void save_model();

  StateOptions options_;
  WorkerCore* core_;
  std::optional<StateStore> store_;
  bool other_run_ = false;  // has been set aside
  bool failing_ = false;    // said already
  bool interval_said_ = false;
  TimeUs next_at_ = 0;
  uint32_t saved_checksum_ = 0;
  uint32_t model_checksum_ = 0;  // of the model that was written
};

// Between two saves of `state_bytes`, so that a day's writing stays within the budget; kNever for a
// budget of 0.
TimeUs save_interval_us(uint64_t state_bytes, double mb_per_day);

}  // namespace paceline
