// Asynchronous parallel: an update is applied when it arrives and its worker goes on at once.
//
// Every update is divided by the weights of all members, so n updates move as far as one round of
// bsp; staleness grows with the number of workers (n - 1 on average with equal ones).
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

class AspPace final : public Pace {
 public:
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable&, const PaceRow&) const override { return true; }
  const char* waiting_reason() const override { return "nothing: this pace never waits"; }
};

}  // namespace

Result<std::unique_ptr<Pace>> make_asp_pace(std::string_view parameters) {
  PACELINE_TRY(parse_no_pace_numbers("asp", parameters));
  return std::make_unique<AspPace>();
}

}  // namespace paceline
