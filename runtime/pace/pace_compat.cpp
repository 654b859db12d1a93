// The compatible pace: bsp's mathematics without its idle time (our definition, after "Asynchronous
// Compatible D-ML System for Edge Devices").
//
// A worker that has its minimum says so and works on, on the same round's model. When the last
// member has its minimum everybody is told to cut; a step in flight is aborted; the round closes
// when the updates are there. With equal workers everybody has just its minimum and the bytes are
// those of bsp.
#include <algorithm>

#include "runtime/pace/pace.h"

namespace paceline {

namespace {

class CompatPace final : public Pace {
 public:
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(std::span<const PaceRow> members) const override {
    return std::ranges::all_of(members, &PaceRow::held);
  }
  bool releases(std::span<const PaceRow>, const PaceRow& row) const override { return !row.held; }
  bool elastic() const override { return true; }
  bool cuts(std::span<const PaceRow> members) const override {
    return std::ranges::all_of(members, [](const PaceRow& row) { return row.ready || row.held; });
  }
  const char* waiting_reason() const override { return "the round waits for the slowest worker"; }
};

}  // namespace

Result<std::unique_ptr<Pace>> make_compat_pace(std::string_view parameter) {
  if (!parameter.empty())
    return fail(Code::kInvalidArgument, "pace compat takes no parameter; write just \"compat\"");
  return std::make_unique<CompatPace>();
}

}  // namespace paceline
