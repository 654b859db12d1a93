// Adaptive parallel with local steps (our definition): the barriers and the plan of ap, but nothing
// is pushed between them: a worker takes its share of iterations locally and sends one update. The
// shape of ESync, whose state server asks before each step; here the plan is made once a round.
#include "runtime/pace/iteration_plan.h"
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {
    {"how many times tau steps the slowest takes in a round", 1, 1, 32}};

class ApLocalPace final : public Pace {
 public:
  explicit ApLocalPace(uint32_t slowest_iterations) : plan_(slowest_iterations) {}
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(const ClockTable& members) const override {
    return members.held_count() == members.size();
  }
  bool releases(const ClockTable&, const PaceRow& row) const override { return !row.held; }
  uint32_t iterations(uint32_t worker_id) const override { return plan_.iterations(worker_id); }
  void pushed(const ClockTable&, const PaceRow& row, TimeUs) override { plan_.observe(row); }
  void closed(const ClockTable& members, TimeUs) override { plan_.replan(members); }
  void members_changed(const ClockTable& members, TimeUs) override { plan_.follow(members); }
  const char* waiting_reason() const override { return "the round waits for every worker"; }

 private:
  IterationPlan plan_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_ap_local_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("ap_local", parameters, kNumbers));
  return std::make_unique<ApLocalPace>(numbers[0]);
}

}  // namespace paceline
