#include "runtime/worker/state_keeper.h"

#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/base/safetensors.h"
#include "runtime/worker/predict.h"

namespace paceline {

namespace {

constexpr double kDayUs = 86'400e6;
// What a save costs beside the state: the file's and the folder's metadata and the journal.
constexpr double kSaveOverheadBytes = 16'384;
constexpr TimeUs kLookEveryUs = from_ms(1000);  // while there is nothing to save yet

}  // namespace

TimeUs save_interval_us(uint64_t state_bytes, double mb_per_day) {
  if (!(mb_per_day > 0)) return kNever;
  const double saves_per_day =
      mb_per_day * 1e6 / (static_cast<double>(state_bytes) + kSaveOverheadBytes);
  const double interval = kDayUs / saves_per_day;
  return interval < 1e18 ? static_cast<TimeUs>(interval) : kNever;
}

Result<StateKeeper> StateKeeper::open(const StateOptions& options, WorkerCore* core) {
  StateKeeper keeper(options, core);
  if (options.folder.empty()) return keeper;
  Result<StateStore> store = StateStore::open(options.folder, "worker");
  if (!store) {
    if (store.error().code() == Code::kUnavailable) return fail(std::move(store).error());
    log_warning("%s; nothing is kept over a restart", store.error().message().c_str());
    return keeper;
  }
  keeper.store_ = std::move(*store);
  const Result<std::optional<StateStore::Found>> found = keeper.store_->load();
  if (!found) {
    log_warning("%s; starting afresh", found.error().message().c_str());
  } else if (*found) {
    const Status status = core->restore((*found)->state);
    if (!status.ok()) keeper.store_->set_aside(status.message().c_str());
  }
  return keeper;
}

uint64_t StateKeeper::with_model(uint64_t state_bytes) const {
  if (core_->publication() == 0) return state_bytes;
  return state_bytes + core_->published().size_bytes() + core_->run_text().size() +
         static_cast<uint64_t>(kSaveOverheadBytes);
}

void StateKeeper::tick(TimeUs now) {
  if (!store_) return;
  if (core_->restored() == Restored::kOtherRun && !other_run_) {
    other_run_ = true;
    store_->set_aside("it belongs to another run");
  }
  if (now < next_at_) return;
  const Bytes state = core_->save();
  if (state.empty() || core_->restored() == Restored::kWaiting) {
    next_at_ = now + kLookEveryUs;
    return;
  }
  const uint64_t bytes = with_model(state.size());
  const TimeUs interval = save_interval_us(bytes, options_.mb_per_day);
  if (!interval_said_) {
    // The first save waits, too: a worker that is started again and again stays within its budget.
    interval_said_ = true;
    if (interval == kNever)
      log_info("state is kept in %s at an orderly stop only: %.1f kB", options_.folder.c_str(),
               static_cast<double>(bytes) / 1e3);
    else
      log_info("state is kept in %s every %.0f s: %.1f kB, at most %g MB a day",
               options_.folder.c_str(), to_seconds(interval), static_cast<double>(bytes) / 1e3,
               options_.mb_per_day);
  } else {
    save(state, false);
  }
  next_at_ = interval == kNever ? kNever : now + interval;
}

void StateKeeper::save_last() {
  if (!store_) return;
  const Bytes state = core_->save();
  if (!state.empty()) save(state, true);
}

void StateKeeper::save(const Bytes& state, bool last) {
  const uint32_t checksum = crc32c(state);
  if (checksum == saved_checksum_ && !last) return;
  const Status status = store_->save(state, last);
  if (status.ok()) {
    saved_checksum_ = checksum;
    if (failing_) log_info("state is kept again in %s", options_.folder.c_str());
  } else if (!failing_) {
    log_warning("%s; going on without: what is not sent yet is lost by a restart",
                status.message().c_str());
  }
  failing_ = !status.ok();
  if (status.ok()) save_model();
}

// For `edge_worker predict` on this board. What can't be written is worth a line, no more.
void StateKeeper::save_model() {
  if (core_->publication() == 0 || core_->published_checksum() == model_checksum_) return;
  const std::string path = options_.folder + "/" + kModelFileName;
  const Status status =
      write_safetensors(path, core_->run().model.layout, core_->published(),
                        model_metadata(core_->run_text(), core_->published_checksum()));
  if (status.ok())
    model_checksum_ = core_->published_checksum();
  else
    log_warning("%s; the model is not kept", status.message().c_str());
}

}  // namespace paceline
