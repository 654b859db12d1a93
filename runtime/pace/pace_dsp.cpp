// Dynamic synchronous parallel (our definition, after the published idea: the fault tolerance of
// iterative training is finite and it changes). ssp with two additions:
//
//   finite    after k iterations since the last barrier a worker calls the next one; everybody
//             enters it after its own current iteration, and all start again from the same model.
//             ssp among equal workers never makes anybody wait, so nobody ever synchronises.
//   dynamic   a monitor moves both bounds: s up when somebody is disturbed (slowest iteration time
//             / median above 1.5), down when all are alike (below 1.1); both down when the training
//             loss rises, k up when it falls.
#include <algorithm>
#include <vector>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr uint32_t kBoundMin = 1, kBoundMax = 10;
constexpr uint32_t kPeriodMin = 5, kPeriodMax = 100;
constexpr PaceNumber kNumbers[] = {
    {"how many exchanges a worker may lead by at first", 3, kBoundMin, kBoundMax},
    {"how many exchanges lie between two barriers at first", 20, kPeriodMin, kPeriodMax}};

constexpr uint64_t kWindowMin = 20;  // pushes between two looks; at least one of each member
constexpr double kTimeKept = 0.8;    // of the smoothed iteration time
constexpr double kLossKept = 0.9;
constexpr double kDisturbed = 1.5, kAlike = 1.1;      // slowest iteration time / median
constexpr double kLossRose = 1.01, kLossFell = 0.99;  // times the loss at the look before

class DspPace final : public Pace {
 public:
  DspPace(uint64_t bound, uint64_t period) : bound_(bound), period_(period) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }

  // One that has not entered a barrier goes on as in ssp: it enters after its next push.
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    const bool entered = row.worker_id < workers_.size() && workers_[row.worker_id].entered;
    return !entered && members.lead(row) <= bound_;
  }

  void pushed(const ClockTable& members, const PaceRow& row, TimeUs) override {
    Worker& worker = worker_of(row);
    const auto took = static_cast<double>(row.iteration_us);
    worker.iteration_us =
        worker.iteration_us == 0 ? took : kTimeKept * worker.iteration_us + (1 - kTimeKept) * took;
    loss_ = loss_ == 0 ? row.loss : kLossKept * loss_ + (1 - kLossKept) * row.loss;
    if (barrier_called_) {
      enter(worker);
    } else if (row.clock >= worker.barrier_clock + period_) {
      barrier_called_ = true;
      enter(worker);
      // Who waits at the bound has no iteration to finish.
      members.for_each([&](const PaceRow& other) {
        if (members.lead(other) > bound_) enter(worker_of(other));
      });
    }
    open_if_all(members);
    // The bound stays while a barrier fills: whoever waits at it has entered.
    if (++pushes_ >= std::max<uint64_t>(kWindowMin, members.size()) && !barrier_called_)
      look(members);
  }

  void members_changed(const ClockTable& members, TimeUs) override {
    for (size_t i = 0; i < workers_.size(); ++i)
      if (members.find(static_cast<uint32_t>(i)) == nullptr) workers_[i] = {};
    entered_ = 0;
    members.for_each([&](const PaceRow& row) {
      Worker& worker = worker_of(row);
      if (worker.entered) ++entered_;
    });
    if (entered_ == 0) barrier_called_ = false;
    open_if_all(members);
  }

  const char* waiting_reason() const override {
    return barrier_called_ ? "every worker meets at a barrier"
                           : "it is too far ahead of the slowest worker";
  }

 private:
  struct Worker {
    bool known = false;
    bool entered = false;        // the barrier that is called
    uint64_t barrier_clock = 0;  // at the last barrier
    double iteration_us = 0;     // smoothed
  };

  Worker& worker_of(const PaceRow& row) {
    if (row.worker_id >= workers_.size()) workers_.resize(size_t{row.worker_id} + 1);
    Worker& worker = workers_[row.worker_id];
    if (!worker.known) worker = {true, false, row.clock, 0};
    return worker;
  }

  void enter(Worker& worker) {
    if (!worker.entered) ++entered_;
    worker.entered = true;
  }

  void open_if_all(const ClockTable& members) {
    if (!barrier_called_ || entered_ < members.size()) return;
    members.for_each([&](const PaceRow& row) {
      Worker& worker = worker_of(row);
      worker.entered = false;
      worker.barrier_clock = row.clock;
    });
    barrier_called_ = false;
    entered_ = 0;
    revise();
  }

  void look(const ClockTable& members) {
    pushes_ = 0;
    std::vector<double> times;
    members.for_each([&](const PaceRow& row) {
      if (const double took = worker_of(row).iteration_us; took > 0) times.push_back(took);
    });
    if (times.empty()) return;
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
    std::nth_element(times.begin(), middle, times.end());
    const double median = *middle;
    const double ratio = *std::ranges::max_element(times) / median;
    const uint64_t bound_before = bound_;
    if (ratio > kDisturbed) bound_ = std::min<uint64_t>(bound_ + 1, kBoundMax);
    if (ratio < kAlike) bound_ = std::max<uint64_t>(bound_ - 1, kBoundMin);
    if (loss_before_ > 0 && loss_ > kLossRose * loss_before_) {
      bound_ = std::max<uint64_t>(bound_ / 2, kBoundMin);
      period_ = std::max<uint64_t>(period_ / 2, kPeriodMin);
    } else if (loss_before_ > 0 && loss_ < kLossFell * loss_before_) {
      period_ = std::min<uint64_t>(period_ + period_ / 4, kPeriodMax);
    }
    loss_before_ = loss_;
    if (bound_ != bound_before) revise();
  }

  uint64_t bound_, period_;
  std::vector<Worker> workers_;  // by worker id
  bool barrier_called_ = false;
  size_t entered_ = 0;
  uint64_t pushes_ = 0;  // since the last look
  double loss_ = 0, loss_before_ = 0;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_dsp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("dsp", parameters, kNumbers));
  return std::make_unique<DspPace>(numbers[0], numbers[1]);
}

}  // namespace paceline
