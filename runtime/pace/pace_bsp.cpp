// Bulk synchronous parallel (Valiant 1990): every round waits for an update of every member; the
// weighted mean is applied once. Reduced in worker-id order it is the bit-exact reference of all
// others.
#include <algorithm>

#include "runtime/pace/pace.h"

namespace paceline {

namespace {

class BspPace final : public Pace {
 public:
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kContributors; }
  bool closes(std::span<const PaceRow> members) const override {
    return std::ranges::all_of(members, &PaceRow::held);
  }
  bool releases(std::span<const PaceRow>, const PaceRow& row) const override { return !row.held; }
  const char* waiting_reason() const override { return "the round waits for every worker"; }
};

}  // namespace

Result<std::unique_ptr<Pace>> make_bsp_pace(std::string_view parameter) {
  if (!parameter.empty())
    return fail(Code::kInvalidArgument, "pace bsp takes no parameter; write just \"bsp\"");
  return std::make_unique<BspPace>();
}

}  // namespace paceline
