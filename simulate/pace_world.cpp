#include "simulate/pace_world.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline {

namespace {

constexpr TimeUs kIterationUsMax = 1'000'000'000;
constexpr double kSlowFactorMax = 1000;
// What is begun at the end of a run ends within the queue's time, twice as long for its jitter.
static_assert(PaceWorld::kRunUsMax + 2 * static_cast<TimeUs>(kSlowFactorMax) * kIterationUsMax <
              DueQueue::kTimeMax);

}  // namespace

Result<std::unique_ptr<PaceWorld>> PaceWorld::make(PaceWorldOptions options) {
  PACELINE_ASSIGN(std::unique_ptr<Pace> pace, make_pace(options.pace));
  if (options.iteration_us.empty() || options.iteration_us.size() > DueQueue::kWorkersMax)
    return fail(Code::kInvalidArgument, "%zu workers; there can be 1 to %u",
                options.iteration_us.size(), DueQueue::kWorkersMax);
  for (const TimeUs us : options.iteration_us)
    if (us < kMicroBatches || us > kIterationUsMax)
      return fail(Code::kInvalidArgument, "an iteration takes %lld us; it can be %u us to %lld s",
                  static_cast<long long>(us), kMicroBatches,
                  static_cast<long long>(kIterationUsMax / 1'000'000));
  const bool shares = options.jitter >= 0 && options.jitter < 1 && options.slow_share >= 0 &&
                      options.slow_share <= 1 && options.slow_factor >= 1 &&
                      options.slow_factor <= kSlowFactorMax;
  if (!shares)
    return fail(Code::kInvalidArgument,
                "jitter is a share from 0 to below 1, slow iterations are a share from 0 to 1 and "
                "take 1 to %.0f times as long",
                kSlowFactorMax);
  return std::unique_ptr<PaceWorld>(new PaceWorld(std::move(options), std::move(pace)));
}

namespace {

double pieces_per_second(const PaceWorldOptions& options, uint32_t pieces) {
  double sum = 0;
  for (const TimeUs us : options.iteration_us) sum += 1e6 * pieces / static_cast<double>(us);
  return sum;
}

}  // namespace

PaceWorld::PaceWorld(PaceWorldOptions options, std::unique_ptr<Pace> pace)
    : options_(std::move(options)),
      pace_(std::move(pace)),
      workers_(options_.iteration_us.size()),
      queue_(workers_.size(), pieces_per_second(options_, pieces_per_iteration())),
      clocks_away_(workers_.size()) {
  for (uint32_t id = 0; id < workers_.size(); ++id) {
    workers_[id].iteration_us = options_.iteration_us[id];
    workers_[id].random = Random(options_.seed, id);
    workers_[id].state = State::kWaiting;
    PaceRow row;
    row.worker_id = id;
    table_.put(row);
  }
  pace_->members_changed(table_, now_);
  for (uint32_t id = 0; id < workers_.size(); ++id) begin(id);
}

void PaceWorld::begin(uint32_t id) {
  Worker& worker = workers_[id];
  worker.version = version_;
  worker.began = now_;
  worker.pieces = 0;
  worker.pieces_minimum = static_cast<uint16_t>(
      pieces_per_iteration() * std::clamp(pace_->iterations(id), 1u, kIterationsMax));
  worker.state = State::kBusy;
  ++busy_;
  tell(PaceEvent::Kind::kStart, id, version_);
  begin_piece(id);
}

TimeUs PaceWorld::draw_piece_us(Worker& worker) {
  auto us = static_cast<double>(worker.iteration_us) / pieces_per_iteration();
  if (options_.jitter > 0) us *= 1 + options_.jitter * (2 * worker.random.unit() - 1);
  if (options_.slow_share > 0 && worker.random.unit() < options_.slow_share)
    us *= options_.slow_factor;
  return std::max<TimeUs>(1, static_cast<TimeUs>(us + 0.5));
}

void PaceWorld::begin_piece(uint32_t id) {
  Worker& worker = workers_[id];
  worker.piece_began = now_;
  worker.due = now_ + draw_piece_us(worker);
  queue_.push(worker.due, id);
}

void PaceWorld::finish_piece(uint32_t id) {
  Worker& worker = workers_[id];
  ++events_;
  ++worker.pieces;
  worker.piece_began = now_;
  const bool has_minimum = worker.pieces >= worker.pieces_minimum;
  if (has_minimum && !pace_->elastic()) return push(id);
  if (worker.pieces == worker.pieces_minimum) {
    PaceRow row = *table_.find(id);
    row.ready = true;
    table_.put(row);
  }
  begin_piece(id);
}

void PaceWorld::push(uint32_t id) {
  Worker& worker = workers_[id];
  --busy_;
  pieces_ += worker.pieces;
  // What is in progress is aborted: only finished pieces count.
  const TimeUs spent_us = worker.piece_began - worker.began;
  busy_us_ += spent_us;
  // With rounds every version is one.
  if (pace_->has_rounds() && worker.version != version_) return discard(id);
  PaceRow row = *table_.find(id);
  ++row.clock;
  row.held = true;
  row.iteration_us = spent_us * pieces_per_iteration() / worker.pieces;
  table_.put(row);
  worker.state = State::kHeld;
  worker.unapplied = true;
  held_.push_back(id);
  lead_max_ = std::max(lead_max_, table_.lead(row));
  pace_->pushed(table_, row, now_);
}

// Refused as late: it goes on at once from the newest model.
void PaceWorld::discard(uint32_t id) {
  pieces_discarded_ += workers_[id].pieces;
  tell(PaceEvent::Kind::kDiscard, id, version_);
  PaceRow row = *table_.find(id);
  row.ready = false;
  table_.put(row);
  begin(id);
}

void PaceWorld::apply(uint32_t id, uint64_t version) {
  Worker& worker = workers_[id];
  PACELINE_CHECK(worker.unapplied);
  worker.unapplied = false;
  ++updates_;
  const uint64_t staleness = version - worker.version;
  staleness_sum_ += staleness;
  staleness_max_ = std::max(staleness_max_, staleness);
  tell(PaceEvent::Kind::kApply, id, version);
  if (const PaceRow* found = table_.find(id)) {
    PaceRow row = *found;
    row.held = row.ready = false;
    table_.put(row);
  }
  if (worker.state == State::kHeld) {
    worker.state = State::kWaiting;
    waiting_.push_back(id);
  }
}

void PaceWorld::apply_held() {
  if (held_.empty()) return;
  if (pace_->apply() == Apply::kNow) {
    for (const uint32_t id : held_) apply(id, version_++);
    held_.clear();
    return;
  }
  if (!pace_->closes(table_)) return;
  for (const uint32_t id : held_) apply(id, version_);
  held_.clear();
  ++version_;
  ++closes_;
  pace_->closed(table_, now_);
}

void PaceWorld::cut() {
  for (uint32_t id = 0; id < workers_.size(); ++id)
    if (workers_[id].state == State::kBusy) push(id);
}

void PaceWorld::release(uint32_t id) {
  if (workers_[id].state == State::kWaiting && pace_->releases(table_, *table_.find(id))) begin(id);
}

void PaceWorld::settle() {
  if (options_.planned_us > 0)
    pace_->progressed(static_cast<double>(now_) / static_cast<double>(options_.planned_us));
  const size_t waited = waiting_.size();
  apply_held();
  // Who waited before has no new answer unless one of these has moved.
  const bool all =
      asked_smallest_ != table_.smallest_clock() || asked_revision_ != pace_->revision();
  asked_smallest_ = table_.smallest_clock();
  asked_revision_ = pace_->revision();
  const size_t first = all ? 0 : waited;
  for (size_t i = first; i < waiting_.size(); ++i) release(waiting_[i]);
  const auto rest = waiting_.begin() + static_cast<std::ptrdiff_t>(first);
  waiting_.erase(std::remove_if(rest, waiting_.end(),
                                [&](uint32_t id) { return workers_[id].state != State::kWaiting; }),
                 waiting_.end());
}

void PaceWorld::run(TimeUs until) {
  PACELINE_CHECK(until <= kRunUsMax);
  while (!queue_.empty() && queue_.due() <= until) {
    now_ = queue_.due();
    while (!queue_.empty() && queue_.due() == now_) {
      const uint32_t id = queue_.worker();
      // In a large fleet the next one is far away in memory.
      const uint32_t next = queue_.next_worker();
      __builtin_prefetch(&workers_[next]);
      table_.prefetch(next);
      queue_.pop();
      if (workers_[id].state != State::kBusy || workers_[id].due != now_) continue;
      finish_piece(id);
      // A worker that pushes is answered before the next one pushes.
      if (!pace_->elastic()) settle();
    }
    if (!pace_->elastic() || table_.empty()) continue;
    // A round is cut after all that ends at one instant.
    if (pace_->cuts(table_)) cut();
    settle();
  }
  now_ = std::max(now_, until);
}

void PaceWorld::leave(uint32_t id) {
  Worker& worker = workers_[id];
  if (worker.state == State::kAway) return;
  if (worker.state == State::kBusy) --busy_;
  worker.state = State::kAway;
  clocks_away_[id] = table_.find(id)->clock;
  std::erase(waiting_, id);
  table_.remove(id);
  if (table_.empty()) return;
  pace_->members_changed(table_, now_);
  if (pace_->elastic() && pace_->cuts(table_)) cut();
  settle();
}

void PaceWorld::join(uint32_t id) {
  Worker& worker = workers_[id];
  // An update of its last life still waits for its close: its place is taken.
  if (worker.state != State::kAway || worker.unapplied) return;
  PaceRow row;
  row.worker_id = id;
  row.clock = table_.empty() ? clocks_away_[id] : table_.smallest_clock();
  table_.put(row);
  pace_->members_changed(table_, now_);
  begin(id);
  settle();
}

void PaceWorld::follow(const std::string& rule) {
  pace_->replace_rule(make_pace(rule).value());
  const uint64_t smallest = table_.smallest_clock();
  std::vector<PaceRow> rows;
  table_.for_each([&](const PaceRow& row) { rows.push_back(row); });
  for (PaceRow& row : rows) {
    row.clock = smallest + (row.held ? 1 : 0);
    table_.put(row);
  }
  if (table_.empty()) return;
  if (pace_->elastic() && pace_->cuts(table_)) cut();
  settle();
}

void PaceWorld::set_iteration_us(uint32_t id, TimeUs iteration_us) {
  workers_[id].iteration_us = std::max<TimeUs>(iteration_us, kMicroBatches);
}

PaceFigures PaceWorld::figures() const {
  PaceFigures result;
  result.iterations = pieces_ / pieces_per_iteration();
  result.discarded = pieces_discarded_ / pieces_per_iteration();
  result.updates = updates_;
  result.rounds = closes_;
  result.events = events_;
  result.utilisation = now_ == 0 ? 0
                                 : static_cast<double>(busy_us_) / static_cast<double>(now_) /
                                       static_cast<double>(workers_.size());
  result.staleness_mean =
      updates_ > 0 ? static_cast<double>(staleness_sum_) / static_cast<double>(updates_) : 0;
  result.staleness_max = staleness_max_;
  result.lead_max = lead_max_;
  return result;
}

}  // namespace paceline
