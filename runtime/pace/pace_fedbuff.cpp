// Buffered asynchronous aggregation (FedBuff, Nguyen et al. 2022): nobody waits; K updates at a
// time become a new model, each weighed by 1 / sqrt(1 + staleness).
//
// Differs from the paper: an update is added to the master when it arrives and the buffer is the
// distance from master to publication, which is the same sum; and it is divided by the weights of
// all members, as every asynchronous pace here, so that the rate is comparable.
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"how many updates make a publication", 10, 1, 10'000}};

class FedbuffPace final : public Pace {
 public:
  explicit FedbuffPace(uint64_t buffered) : buffered_(buffered) {
    set_staleness_weight(StalenessWeight::kReciprocalRoot);
  }
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable&, const PaceRow&) const override { return true; }
  bool publishes(const ClockTable&, uint64_t applied, bool) const override {
    return applied >= buffered_;
  }
  const char* waiting_reason() const override { return "nothing: this pace never waits"; }

 private:
  uint64_t buffered_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_fedbuff_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("fedbuff", parameters, kNumbers));
  return std::make_unique<FedbuffPace>(numbers[0]);
}

}  // namespace paceline
