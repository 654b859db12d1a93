#include "server/command_without.h"

#include <cmath>

#include "runtime/base/checksum.h"
#include "runtime/base/safetensors.h"
#include "server/control_set.h"
#include "server/run_folder.h"

namespace paceline {

namespace {

// The moves of a run's master, with one worker's updates left out.
class OtherMaster {
 public:
  OtherMaster(const ServerCore& core, uint32_t worker, uint64_t last_sequence)
      : layout_(core.options().run.model.layout),
        seed_(core.options().run.training.seed),
        divides_by_members_(make_pace(core.options().pace).value()->divisor() == Divisor::kMembers),
        worker_(worker),
        last_sequence_(last_sequence),
        master_(core.master().begin(), core.master().end()),
        sum_(master_.size()),
        statistics_(core.statistics()) {}

  Status move(const ModelMove& move);
  const std::vector<float>& master() const { return master_; }
  uint64_t update_count() const { return update_count_; }

 private:
  Status apply(const ModelMove& move);
  Status pool(std::span<const RecordedUpdate* const> others, double remembered_rows);

  const ParameterLayout& layout_;
  const uint64_t seed_;
  const bool divides_by_members_;
  const uint32_t worker_;
  const uint64_t last_sequence_;
  std::vector<float> master_, sum_;
  StatisticsPool statistics_;
  // Of the worker's newest update. While it is a member a divisor over members has it in every
  // close; that is taken to be from its first update to its last.
  float member_weight_ = 0;
  uint64_t update_count_ = 0;
};

Status OtherMaster::move(const ModelMove& move) {
  switch (move.kind) {
    case ModelMove::Kind::kApply:
      return apply(move);
    case ModelMove::Kind::kDecay:
      for (float& value : master_) value *= move.keep;
      break;
    case ModelMove::Kind::kPublish:
      statistics_.publish(master_);
      break;
    case ModelMove::Kind::kDrop:
      break;
  }
  return {};
}

Status OtherMaster::pool(std::span<const RecordedUpdate* const> others, double remembered_rows) {
  bool first = true;
  for (const RecordedUpdate* update : others) {
    if (update->statistics.rows == 0) continue;
    PACELINE_TRY(statistics_.check(update->statistics, UINT64_MAX));
    if (std::exchange(first, false)) statistics_.weigh_at_most(remembered_rows);
    statistics_.add(update->statistics);
  }
  return {};
}

Status OtherMaster::apply(const ModelMove& move) {
  update_count_ += move.updates.size();
  float own_weight = divides_by_members_ ? member_weight_ : 0;
  std::vector<const RecordedUpdate*> others;
  for (const RecordedUpdate& update : move.updates) {
    if (update.worker != worker_) {
      if (!update.chunks.empty()) others.push_back(&update);
      continue;
    }
    own_weight = divides_by_members_ || !update.chunks.empty() ? update.weight : 0;
    member_weight_ = update.sequence == last_sequence_ ? 0 : update.weight;
  }
  if (!move.master.empty())
    return fail(Code::kUnsupported,
                "its journals hold the model that updates led to, not the updates; serve the run "
                "with journal = \"payload\" and aggregate = \"mean\"");
  PACELINE_TRY(pool(others, move.remembered_rows));
  const float divisor = move.divisor - own_weight;
  if (others.empty() || !(divisor > 0)) return {};
  for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
    std::vector<WeightedPayload> payloads;
    for (const RecordedUpdate* update : others) {
      if (update->chunks.size() != layout_.chunk_count())
        return fail(Code::kCorrupt, "an update of %zu chunks", update->chunks.size());
      PACELINE_ASSIGN(const PayloadView view,
                      verify_payload(layout_, chunk, update->chunks[chunk]));
      payloads.push_back({view, update->weight});
    }
    sum_payloads(layout_, chunk, payloads, seed_, sum_);
  }
  apply_mean(sum_, divisor, move.keep, master_);
  return {};
}

Result<uint32_t> id_of(const Replay& replay, const std::string& worker) {
  std::string names;
  for (const auto& [id, own] : replay.contributions) {
    if (own.name == worker) return id;
    names += (names.empty() ? "" : ", ") + own.name;
  }
  return fail(Code::kNotFound, "no update of '%s' is kept; there are updates of: %s",
              worker.c_str(), names.empty() ? "nobody" : names.c_str());
}

// What is published is the master but for what the codec keeps back, which is taken to be the same.
void estimate_published(const ServerCore& core, const std::vector<float>& master,
                        Without* without) {
  without->with.assign(core.published().begin(), core.published().end());
  without->estimate = without->with;
  double moved = 0, length = 0;
  for (size_t i = 0; i < master.size(); ++i) {
    const float difference = master[i] - core.master()[i];
    without->estimate[i] += difference;
    moved += static_cast<double>(difference) * static_cast<double>(difference);
    length += static_cast<double>(without->with[i]) * static_cast<double>(without->with[i]);
  }
  without->moved_share = length > 0 ? std::sqrt(moved / length) : 0;
}

Status evaluate_both(const WithoutOptions& options, const KeptRun& run, Without* without) {
  PACELINE_ASSIGN(const ControlSet set, open_control_set(options.data_file, options.label_file,
                                                         run.core->options().run, run.schema));
  without->rows = set.rows.size();
  without->numbers = run.core->options().run.model.class_count == 0;
  PACELINE_ASSIGN(without->accuracy_with,
                  evaluate_model(*set.trainer, set.dataset, set.rows, without->with));
  PACELINE_ASSIGN(without->accuracy_without,
                  evaluate_model(*set.trainer, set.dataset, set.rows, without->estimate));
  return {};
}

}  // namespace

Result<Without> replay_without(const WithoutOptions& options) {
  PACELINE_ASSIGN(const Replay replay, replay_run(options.folder));
  PACELINE_ASSIGN(const uint32_t worker, id_of(replay, options.worker));
  PACELINE_ASSIGN(const KeptRun run, open_kept_run(options.folder));
  Without without;
  without.worker = replay.contributions.at(worker);
  without.from_snapshot = replay.from_snapshot;
  without.from_publication = run.core->publication();
  OtherMaster other(*run.core, worker, without.worker.last_sequence);
  const auto follow = [&](const JournalRecord& written) -> Status {
    PACELINE_ASSIGN(const ServerRecord record, parse_record(written.bytes));
    for (const ModelMove& move : record.moves) PACELINE_TRY(other.move(move));
    return {};
  };
  PACELINE_TRY([&]() -> Status {
    const Result<Redone> redone =
        redo_journals(options.folder, replay.from_snapshot, run.core.get(), follow);
    return redone ? Status() : redone.error();
  }());
  without.updates = other.update_count();
  estimate_published(*run.core, other.master(), &without);
  if (!options.data_file.empty()) PACELINE_TRY(evaluate_both(options, run, &without));
  if (!options.model_file.empty())
    PACELINE_TRY(write_safetensors(
        options.model_file, run.core->options().run.model.layout, without.estimate,
        model_metadata(run.core->options().run_text, model_checksum(without.estimate))));
  return without;
}

std::string without_text(const Without& without) {
  const Contribution& own = without.worker;
  std::string text = format_text(
      "without '%s': %llu of %llu updates, %llu steps, since publication %llu (snapshot %llu)\n"
      "the model would be %.3g %% of its length elsewhere\n",
      own.name.c_str(), static_cast<unsigned long long>(own.updates),
      static_cast<unsigned long long>(without.updates), static_cast<unsigned long long>(own.steps),
      static_cast<unsigned long long>(without.from_publication),
      static_cast<unsigned long long>(without.from_snapshot), 100 * without.moved_share);
  if (without.rows > 0)
    text += format_text("%s on %zu rows: %.4f with it, %.4f without\n",
                        without.numbers ? "R2" : "accuracy", without.rows,
                        without.accuracy_with.accuracy, without.accuracy_without.accuracy);
  return text +
         "A first-order estimate: what the others sent was computed on a model that had its "
         "updates. It can't know\nwhat they would have sent on another, whom rounds would not have "
         "waited for, and what came before that snapshot.\nOnly training again tells.\n";
}

}  // namespace paceline
