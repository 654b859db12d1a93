// Bulk synchronous parallel (Valiant 1990): every round waits for an update of every member; the
// weighted mean is applied once. Reduced in worker-id order it is the bit-exact reference of all
// others.
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

class BspPace final : public Pace {
 public:
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(const ClockTable& members) const override {
    return members.held_count() == members.size();
  }
  bool releases(const ClockTable&, const PaceRow& row) const override { return !row.held; }
  const char* waiting_reason() const override { return "the round waits for every worker"; }
};

}  // namespace

Result<std::unique_ptr<Pace>> make_bsp_pace(std::string_view parameters) {
  PACELINE_TRY(parse_no_pace_numbers("bsp", parameters));
  return std::make_unique<BspPace>();
}

}  // namespace paceline
