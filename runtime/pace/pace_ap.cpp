// Adaptive parallel (our definition, after the thesis' idea: the monitor adjusts how many
// iterations each node does): asp between barriers, and before each barrier as many iterations of
// every worker as make all arrive together. The plan is made anew at each barrier from measured
// times.
#include <vector>

#include "runtime/pace/iteration_plan.h"
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {
    {"how many exchanges the slowest makes between two barriers", 2, 1, 32}};

class ApPace final : public Pace {
 public:
  explicit ApPace(uint32_t slowest_iterations) : plan_(slowest_iterations) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable&, const PaceRow& row) const override { return !arrived(row); }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs) override {
    plan_.observe(row);
    // The push that completes its share, and no other: each worker is counted once.
    if (row.clock == begin_of(row) + plan_.iterations(row.worker_id)) ++arrived_;
    open_if_all(members);
  }
  void members_changed(const ClockTable& members, TimeUs) override {
    plan_.follow(members);
    for (size_t i = 0; i < begins_.size(); ++i)
      if (members.find(static_cast<uint32_t>(i)) == nullptr) begins_[i] = kUnknown;
    arrived_ = 0;
    members.for_each([&](const PaceRow& row) {
      begin_of(row);
      if (arrived(row)) ++arrived_;
    });
    open_if_all(members);
  }
  const char* waiting_reason() const override { return "every worker meets at a barrier"; }

 private:
  static constexpr uint64_t kUnknown = UINT64_MAX;

  // Clock at the last barrier; of a new worker where it stands.
  uint64_t& begin_of(const PaceRow& row) {
    if (row.worker_id >= begins_.size()) begins_.resize(size_t{row.worker_id} + 1, kUnknown);
    uint64_t& begin = begins_[row.worker_id];
    if (begin == kUnknown) begin = row.clock;
    return begin;
  }
  bool arrived(const PaceRow& row) const {
    return row.worker_id < begins_.size() && begins_[row.worker_id] != kUnknown &&
           row.clock >= begins_[row.worker_id] + plan_.iterations(row.worker_id);
  }
  void open_if_all(const ClockTable& members) {
    if (members.empty() || arrived_ < members.size()) return;
    plan_.replan(members);
    members.for_each([&](const PaceRow& row) { begin_of(row) = row.clock; });
    arrived_ = 0;
    revise();
  }

  IterationPlan plan_;
  std::vector<uint64_t> begins_;  // by worker id
  size_t arrived_ = 0;            // members that have done their share
};

}  // namespace

Result<std::unique_ptr<Pace>> make_ap_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("ap", parameters, kNumbers));
  return std::make_unique<ApPace>(numbers[0]);
}

}  // namespace paceline
