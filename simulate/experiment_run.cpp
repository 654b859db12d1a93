#include "simulate/experiment_run.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/data/reader.h"
#include "runtime/data/shard.h"
#include "runtime/worker/local_trainer.h"
#include "server/model_watcher.h"
#include "simulate/invariants.h"

namespace paceline {

namespace {

constexpr size_t kControlBatch = 250;
constexpr uint64_t kFileBytesMax = uint64_t{4} << 30;
// After the planned end the last round may take so many times as long as the run.
constexpr TimeUs kOvertime = 1;

TimeUs to_us(double seconds) { return static_cast<TimeUs>(seconds * 1e6); }
TimeUs or_never(double seconds) { return seconds < 0 ? kNever : to_us(seconds); }

size_t shared_rows(const RunPlan& plan, const ExperimentData& data) {
  return data.rows.row_count() - static_cast<size_t>(plan.data.control_rows);
}

Result<FleetWorker> make_worker(const RunPlan& plan, const ExperimentData& data, uint32_t index) {
  const WorkerPlan& board = plan.workers[index];
  FleetWorker worker;
  worker.name = board.name;
  PACELINE_ASSIGN(worker.link, link_faults(board.link));
  auto clock = std::make_shared<StepClock>(board.speed, to_us(plan.seconds), plan.seed, index);
  worker.step_time = [clock](TimeUs now) { return clock->step_us(now); };
  worker.joins_at_us = to_us(board.joins_at);
  worker.leaves_at_us = or_never(board.leaves_at);
  worker.crashes_at_us = or_never(board.crash_at);
  worker.back_after_us = or_never(board.back_after);

  ShardOptions shard;
  shard.index = index;
  shard.count = static_cast<uint32_t>(plan.workers.size());
  shard.dirichlet_alpha = plan.data.dirichlet;
  shard.seed = plan.seed;
  shard.row_count_max = shared_rows(plan, data);
  PACELINE_ASSIGN(const std::vector<uint32_t> rows,
                  shard_rows(data.rows.labels(), data.rows.class_count(), shard));
  auto local = std::make_shared<LocalData>();
  local->dataset = data.rows.select(rows);
  local->split = split_hold_out(local->dataset.row_count());
  worker.training_rows = local->split.training.size();
  worker.held_out_rows = std::min(local->split.held_out.size(), kEvaluatedRowsMax);
  worker.factory = make_local_run_factory(local, worker.name, plan.backend);
  return worker;
}

// The rows that no worker has, and the model's accuracy on them over time.
class ControlSet {
 public:
  Status open(const RunPlan& plan, const ExperimentData& data) {
    local_ = std::make_shared<LocalData>();
    rows_.resize(static_cast<size_t>(plan.data.control_rows));
    std::iota(rows_.begin(), rows_.end(), static_cast<uint32_t>(shared_rows(plan, data)));
    local_->dataset = data.rows.select(rows_);
    std::iota(rows_.begin(), rows_.end(), 0u);
    local_->split = split_hold_out(rows_.size());
    // Scaled as a worker's rows are.
    if (Result<LocalRun> run =
            make_local_run_factory(local_, "control", plan.backend)(plan.server.run_text);
        !run)
      return fail(std::move(run).error());
    PACELINE_ASSIGN(trainer_, make_trainer(plan.server.run.model, kControlBatch, plan.backend));
    return {};
  }

  Status look(const Fleet& fleet, const ServerCore& server) {
    if (server.publication() != looked_at_) {
      looked_at_ = server.publication();
      PACELINE_ASSIGN(last_, evaluate_model(*trainer_, local_->dataset, rows_, server.published()));
    }
    const WorkerTotals totals = fleet.totals();
    curve_.push_back({to_seconds(fleet.now()), totals.bytes_up + totals.bytes_down,
                      totals.exchanges, last_.accuracy, last_.loss});
    return {};
  }

  const std::vector<RecordPoint>& curve() const { return curve_; }

 private:
  std::shared_ptr<LocalData> local_;
  std::vector<uint32_t> rows_;
  std::unique_ptr<Trainer> trainer_;
  uint64_t looked_at_ = 0;
  Evaluated last_;
  std::vector<RecordPoint> curve_;
};

// What the Director chose, whenever it was something else.
class DecisionLog {
 public:
  void look(TimeUs now, const ServerCore& server) {
    const Directive& next = server.directive();
    std::vector<std::string> reasons;
    const auto note = [&](bool changed, const std::string& reason) {
      if (changed) reasons.push_back(reason);
    };
    note(server.pace_name() != pace_, server.pace_reason());
    note(next.tau != tau_, next.reason);
    note(next.codec_up != codec_up_, server.content().reason_up());
    note(next.codec_down != codec_down_, server.content().reason_down());
    if (reasons.empty()) return;
    pace_ = server.pace_name();
    tau_ = next.tau;
    codec_up_ = next.codec_up;
    codec_down_ = next.codec_down;
    decisions_.push_back({to_seconds(now), pace_, tau_,
                          codec_info(static_cast<CodecId>(codec_up_)).name,
                          codec_info(static_cast<CodecId>(codec_down_)).name, std::move(reasons)});
  }
  const std::vector<RecordDecision>& decisions() const { return decisions_; }

 private:
  std::string pace_;  // none yet
  uint32_t tau_ = 0;
  uint8_t codec_up_ = UINT8_MAX, codec_down_ = UINT8_MAX;
  std::vector<RecordDecision> decisions_;
};

void note_accuracy(const std::vector<RecordPoint>& curve, RunRecord* record) {
  const size_t last = std::min<size_t>(curve.size(), 5);
  if (last == 0) return;
  record->final_accuracy = 0;
  for (size_t i = curve.size() - last; i < curve.size(); ++i)
    record->final_accuracy += curve[i].accuracy / static_cast<double>(last);
  record->best_accuracy = std::ranges::max(curve, {}, &RecordPoint::accuracy).accuracy;
}

RunRecord summarize(const RunPlan& plan, Fleet& fleet, const ControlSet& control) {
  RunRecord record;
  record.point = plan.point;
  record.settings = plan.settings;
  record.seed = plan.seed;
  record.seconds = to_seconds(fleet.now());
  const WorkerTotals totals = fleet.totals();
  record.bytes_up = totals.bytes_up;
  record.bytes_down = totals.bytes_down;
  record.exchanges = totals.exchanges;
  record.steps = totals.steps;
  record.refused = totals.refused;
  record.discarded = totals.discarded;
  if (totals.present_us > 0)
    record.waiting_share =
        static_cast<double>(totals.waited_us) / static_cast<double>(totals.present_us);
  record.rounds = fleet.server().rounds_done();
  record.checksum = format_text("%08x", fleet.server().checksum());
  record.curve = control.curve();
  note_accuracy(record.curve, &record);
  for (const double target : plan.targets)
    record.targets.push_back(target_record(record.curve, target));
  return record;
}

}  // namespace

Result<std::shared_ptr<const ExperimentData>> load_experiment_data(const DataPlan& plan) {
  ReadOptions options;
  options.label_file = plan.label_file;
  options.label_column = plan.label_column;
  auto data = std::make_shared<ExperimentData>();
  PACELINE_ASSIGN(data->rows, read_dataset(plan.file, options));
  if (data->rows.row_count() <= 2 * plan.control_rows)
    return fail(Code::kInvalidArgument, "%s: %zu rows are too few to keep %llu as a control set",
                plan.file.c_str(), data->rows.row_count(),
                static_cast<unsigned long long>(plan.control_rows));
  for (const std::string& path : {plan.file, plan.label_file}) {
    if (path.empty()) continue;
    PACELINE_ASSIGN(const Bytes bytes, read_file(path, kFileBytesMax));
    data->checksum = crc32c(bytes, data->checksum);
  }
  return data;
}

Result<std::unique_ptr<RunRecord>> run_plan(const RunPlan& plan, const ExperimentData& data,
                                            const RunHooks& hooks) {
  FleetOptions options;
  options.server = plan.server;
  options.seed = plan.seed;
  for (uint32_t i = 0; i < plan.workers.size(); ++i) {
    PACELINE_ASSIGN(FleetWorker worker, make_worker(plan, data, i));
    options.workers.push_back(std::move(worker));
  }
  PACELINE_ASSIGN(const std::unique_ptr<Fleet> fleet, Fleet::make(std::move(options)));
  ServerCore& server = fleet->server();
  FleetInvariants invariants(*fleet);
  if (hooks.tracer) fleet->set_tracer(hooks.tracer);
  ControlSet control;
  PACELINE_TRY(control.open(plan, data));

  const TimeUs planned = to_us(plan.seconds);
  const TimeUs evaluate_every = std::max<TimeUs>(1, to_us(plan.evaluate_every_s));
  DecisionLog decisions;
  TimeUs next_look = 0;
  bool stopped = false;
  Status failure;
  fleet->run(planned + kOvertime * planned, [&] {
    stopped = hooks.stop != nullptr && hooks.stop->load(std::memory_order_relaxed);
    if (stopped || !invariants.hold()) return true;
    const TimeUs now = fleet->now();
    server.set_progress(std::min(1.0, static_cast<double>(now) / static_cast<double>(planned)));
    if (now >= planned) server.finish(now);
    decisions.look(now, server);
    if (now >= next_look) {
      next_look += evaluate_every;
      failure = control.look(*fleet, server);
      if (!failure.ok()) return true;
    }
    return server.finished();
  });
  PACELINE_TRY(failure);
  if (stopped) return nullptr;
  fleet->end_spans();
  if (invariants.broken().empty()) PACELINE_TRY(control.look(*fleet, server));
  auto record = std::make_unique<RunRecord>(summarize(plan, *fleet, control));
  record->decisions = decisions.decisions();
  if (!invariants.broken().empty())
    record->broken =
        format_text("seed %llu, %.6f s: %s", static_cast<unsigned long long>(plan.seed),
                    to_seconds(fleet->now()), invariants.broken().c_str());
  return record;
}

}  // namespace paceline
