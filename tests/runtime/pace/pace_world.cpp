#include "tests/runtime/pace/pace_world.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline::test {

PaceWorld::PaceWorld(const char* pace, std::vector<int64_t> ticks)
    : pace_(make_pace(pace).value()),
      ticks_(std::move(ticks)),
      workers_(ticks_.size()),
      starts_(ticks_.size()) {
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    PACELINE_CHECK(ticks_[i] % units_minimum() == 0);
    workers_[i].row.worker_id = i;
    begin(workers_[i]);
  }
}

std::vector<PaceRow> PaceWorld::rows() const {
  std::vector<PaceRow> members;
  for (const Worker& worker : workers_)
    if (worker.member) members.push_back(worker.row);
  return members;
}

void PaceWorld::begin(Worker& worker) {
  starts_[worker.row.worker_id].push_back(now_);
  worker.base = version_;
  worker.units = 0;
  begin_unit(worker);
}

void PaceWorld::begin_unit(Worker& worker) {
  worker.busy = true;
  worker.due = now_ + unit_ticks(worker.row.worker_id);
}

void PaceWorld::finish_unit(Worker& worker) {
  worker.busy = false;
  ++worker.units;
  if (worker.units < units_minimum() || pace_->elastic()) {
    worker.row.ready = worker.units >= units_minimum();
    begin_unit(worker);
  } else {
    push(worker);
  }
}

void PaceWorld::push(Worker& worker) {
  worker.busy = false;  // what was in progress is aborted
  ++worker.row.clock;
  worker.row.held = true;
  lead_max_ = std::max(lead_max_, worker.row.clock - smallest_clock(rows()));
  if (pace_->apply() == Apply::kNow) apply(worker, version_++);
}

void PaceWorld::apply(Worker& worker, uint64_t version) {
  worker.row.held = false;
  worker.row.ready = false;
  units_applied_ += worker.units;
  busy_ticks_ += worker.units * unit_ticks(worker.row.worker_id);
  ++updates_;
  staleness_sum_ += version - worker.base;
}

void PaceWorld::settle() {
  if (pace_->elastic() && pace_->cuts(rows())) {
    for (Worker& worker : workers_)
      if (worker.member && !worker.row.held) push(worker);
  }
  if (pace_->apply() == Apply::kHold && pace_->closes(rows())) {
    for (Worker& worker : workers_)
      if (worker.member && worker.row.held) apply(worker, version_);
    ++version_;
    ++rounds_;
  }
  const std::vector<PaceRow> members = rows();
  for (Worker& worker : workers_)
    if (worker.member && !worker.busy && pace_->releases(members, worker.row)) begin(worker);
}

void PaceWorld::run(int64_t until) {
  while (true) {
    int64_t next = INT64_MAX;
    for (const Worker& worker : workers_)
      if (worker.member && worker.busy) next = std::min(next, worker.due);
    if (next > until) break;
    now_ = next;
    for (Worker& worker : workers_) {
      if (!worker.member || !worker.busy || worker.due != now_) continue;
      finish_unit(worker);
      // A worker that pushes is answered before the next one pushes; a round closes after all that
      // ends at one instant.
      if (pace_->apply() == Apply::kNow) settle();
    }
    settle();
  }
  now_ = until;
}

void PaceWorld::remove(uint32_t worker) {
  workers_[worker].member = false;
  settle();
}

PaceFigures PaceWorld::figures() const {
  PaceFigures result;
  result.iterations = units_applied_ / units_minimum();
  result.rounds = rounds_;
  result.utilisation = static_cast<double>(busy_ticks_) / static_cast<double>(now_) /
                       static_cast<double>(workers_.size());
  result.mean_staleness =
      updates_ > 0 ? static_cast<double>(staleness_sum_) / static_cast<double>(updates_) : 0;
  result.lead_max = lead_max_;
  return result;
}

bool PaceWorld::stuck() const {
  return std::ranges::none_of(workers_,
                              [](const Worker& worker) { return worker.member && worker.busy; });
}

}  // namespace paceline::test
