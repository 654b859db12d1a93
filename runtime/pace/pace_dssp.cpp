// Dynamic stale synchronous parallel (Zhao et al., ICDCS 2019): ssp, and the fastest worker, when
// it reaches the bound, is granted so many extra iterations that it would arrive when an update of
// the slowest is due. With no extra iterations it is ssp.
//
// Departs from it in two places: grants never take a lead beyond the bound + the extra iterations +
// 1 (the paper caps one grant, not their sum), and a worker without two pushes has no interval yet
// and is granted nothing.
#include <algorithm>
#include <vector>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"how many exchanges a worker may lead by", 3, 0, 10'000},
                                   {"how many more the fastest may be granted", 12, 0, 1000}};

class DsspPace final : public Pace {
 public:
  DsspPace(uint64_t bound, uint64_t extra_max) : bound_(bound), extra_max_(extra_max) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    return members.lead(row) <= bound_ ||
           (row.worker_id < pushes_.size() && row.clock < pushes_[row.worker_id].free_until);
  }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs now) override {
    if (row.worker_id >= pushes_.size()) pushes_.resize(size_t{row.worker_id} + 1);
    Pushes& own = pushes_[row.worker_id];
    own.interval = own.last == kNever ? 0 : now - own.last;
    own.last = now;
    const bool granted = row.clock < own.free_until;
    if (granted || members.lead(row) <= bound_ || row.clock < members.largest_clock()) return;
    const uint32_t slowest = members.slowest().worker_id;
    if (slowest < pushes_.size())
      own.free_until = row.clock + extra(own, pushes_[slowest], members.lead(row));
  }
  void members_changed(const ClockTable& members, TimeUs) override {
    // A grant is of one stay: who comes back stands at another clock.
    for (size_t i = 0; i < pushes_.size(); ++i)
      if (members.find(static_cast<uint32_t>(i)) == nullptr) pushes_[i] = {};
  }
  const char* waiting_reason() const override {
    return "it is too far ahead of the slowest worker";
  }

 private:
  struct Pushes {
    TimeUs last = kNever;
    TimeUs interval = 0;      // between its last two; 0: not known
    uint64_t free_until = 0;  // clocks below it start without asking
  };

  // The r that brings the fastest's push closest to one of the slowest; the smallest of equals.
  uint64_t extra(const Pushes& fastest, const Pushes& slowest, uint64_t lead) const {
    if (fastest.interval <= 0 || slowest.interval <= 0) return 0;
    const uint64_t allowed = bound_ + extra_max_ + 1;
    uint64_t best = 0;
    TimeUs best_distance = kNever;
    for (uint64_t r = 0; r <= extra_max_ && lead + r <= allowed; ++r) {
      const TimeUs arrives = fastest.last + static_cast<TimeUs>(r) * fastest.interval;
      const TimeUs ahead = arrives - slowest.last + slowest.interval / 2;
      const TimeUs k =
          std::clamp<TimeUs>(ahead / slowest.interval, 1, static_cast<TimeUs>(extra_max_) + 1);
      const TimeUs due = slowest.last + k * slowest.interval;
      const TimeUs distance = std::max(due, arrives) - std::min(due, arrives);
      if (distance >= best_distance) continue;
      best = r;
      best_distance = distance;
    }
    return best;
  }

  uint64_t bound_, extra_max_;
  std::vector<Pushes> pushes_;  // by worker id
};

}  // namespace

Result<std::unique_ptr<Pace>> make_dssp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("dssp", parameters, kNumbers));
  return std::make_unique<DsspPace>(numbers[0], numbers[1]);
}

}  // namespace paceline
