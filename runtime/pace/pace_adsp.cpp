// ADSP (Hu, Wang, Wu, AAAI 2020): nobody waits, and all make about the same number of commits. In
// each period every worker has the same target of commits; one that is `left` commits short of it
// plans its next one after (time left) / left, and computes until then.
//
// Ours: the plan is in whole iterations from the worker's smoothed time, rounded down so that a
// commit is rather early than late. Not built: the search for the best number of commits a period.
#include <algorithm>
#include <vector>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"the seconds of a period", 60, 1, 86'400},
                                   {"the commits that each worker makes in it", 10, 1, 10'000}};

constexpr double kTimeKept = 0.8;  // of the smoothed iteration time
constexpr uint32_t kIterationsMax = 1024;

class AdspPace final : public Pace {
 public:
  AdspPace(TimeUs period, uint64_t commits) : period_(period), commits_(commits) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable&, const PaceRow&) const override { return true; }
  uint32_t iterations(uint32_t worker_id) const override {
    return worker_id < workers_.size() ? workers_[worker_id].iterations : 1;
  }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs now) override {
    if (ends_ == kNever) {
      ends_ = now + period_;
      target_ = members.smallest_clock() + commits_;
    }
    for (; ends_ <= now; ends_ += period_) target_ += commits_;
    if (row.worker_id >= workers_.size()) workers_.resize(size_t{row.worker_id} + 1);
    Worker& worker = workers_[row.worker_id];
    const auto took = static_cast<double>(row.iteration_us);
    worker.iteration_us =
        worker.iteration_us == 0 ? took : kTimeKept * worker.iteration_us + (1 - kTimeKept) * took;
    if (worker.iteration_us <= 0) return;
    const double fits = until_next(row.clock, now) / worker.iteration_us * (1 + 1e-9);
    worker.iterations = static_cast<uint32_t>(std::clamp(fits, 1.0, double{kIterationsMax}));
  }
  const char* waiting_reason() const override { return "nothing: this pace never waits"; }

 private:
  struct Worker {
    double iteration_us = 0;  // smoothed
    uint32_t iterations = 1;
  };

  double until_next(uint64_t clock, TimeUs now) const {
    const auto rest = static_cast<double>(ends_ - now);
    if (clock < target_) return rest / static_cast<double>(target_ - clock);
    // Its share of this period is done: the next commit is one of the coming period's.
    const auto ahead = static_cast<double>(clock - target_ + 1);
    return rest + ahead * static_cast<double>(period_) / static_cast<double>(commits_);
  }

  TimeUs period_;
  uint64_t commits_;
  TimeUs ends_ = kNever;         // of the present period
  uint64_t target_ = 0;          // clock of every worker at its end
  std::vector<Worker> workers_;  // by worker id
};

}  // namespace

Result<std::unique_ptr<Pace>> make_adsp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("adsp", parameters, kNumbers));
  return std::make_unique<AdspPace>(TimeUs{numbers[0]} * 1'000'000, numbers[1]);
}

}  // namespace paceline
