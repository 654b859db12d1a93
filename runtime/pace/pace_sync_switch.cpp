// Sync-Switch (Li et al., ICDCS 2021): bsp first, asp from a share of the run on: the early, large
// steps are taken together, the late ones without waiting. The share is of the planned run (seconds
// or rounds); a run without a plan stays at bsp.
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"the percentage of the run that is bsp", 50, 0, 100}};

class SyncSwitchPace final : public Pace {
 public:
  explicit SyncSwitchPace(double share) : share_(share) {}
  Apply apply() const override { return switched_ ? Apply::kNow : Apply::kHold; }
  Divisor divisor() const override {
    return switched_ ? Divisor::kMembers : Divisor::kContributors;
  }
  bool closes(const ClockTable& members) const override {
    return !switched_ && members.held_count() == members.size();
  }
  bool releases(const ClockTable&, const PaceRow& row) const override {
    return switched_ || !row.held;
  }
  void progressed(double share) override {
    if (switched_ || share < share_) return;
    switched_ = true;
    revise();
  }
  const char* waiting_reason() const override { return "the round waits for every worker"; }

 private:
  double share_;
  bool switched_ = false;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_sync_switch_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("sync_switch", parameters, kNumbers));
  return std::make_unique<SyncSwitchPace>(numbers[0] / 100.0);
}

}  // namespace paceline
