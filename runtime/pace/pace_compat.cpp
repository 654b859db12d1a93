// The compatible pace: bsp's mathematics without its idle time (our definition, after "Asynchronous
// Compatible D-ML System for Edge Devices").
//
// A worker that has its minimum says so and works on, on the same round's model. When the last
// member has its minimum everybody is told to cut; a step in flight is aborted; the round closes
// when the updates are there. With equal workers everybody has just its minimum and the bytes are
// those of bsp.
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

class CompatPace final : public Pace {
 public:
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(const ClockTable& members) const override {
    return members.held_count() == members.size();
  }
  bool releases(const ClockTable&, const PaceRow& row) const override { return !row.held; }
  bool elastic() const override { return true; }
  bool cuts(const ClockTable& members) const override {
    return members.ready_or_held_count() == members.size();
  }
  const char* waiting_reason() const override { return "the round waits for the slowest worker"; }
};

}  // namespace

Result<std::unique_ptr<Pace>> make_compat_pace(std::string_view parameters) {
  PACELINE_TRY(parse_no_pace_numbers("compat", parameters));
  return std::make_unique<CompatPace>();
}

}  // namespace paceline
