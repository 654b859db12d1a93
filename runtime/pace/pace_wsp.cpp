// Worker-selection parallel (our definition: the publication's idea is to balance stale versions
// against slow workers by selecting who goes on). At least m updates make a close, and a worker
// that is more than s exchanges ahead of the slowest does not count for one and stays until the
// slowest has moved. Its update is applied with the next close, like every other that is held.
//
// A line from ssp (m = 1, whose timing it has) to bsp (m = all members); no bound on s makes it
// lsp. Fewer than m close when no more can come: without that all would wait for all.
#include <algorithm>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {
    {"how many updates make a close (0: a quarter of the workers, at least 2)", 2, 0, 10'000},
    {"how many exchanges a worker may lead by", 5, 0, 10'000}};

class WspPace final : public Pace {
 public:
  WspPace(uint64_t selected, uint64_t lead_max) : selected_(selected), lead_max_(lead_max) {}
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool has_rounds() const override { return false; }
  bool closes(const ClockTable& members) const override {
    const uint64_t selected = selected_ > 0 ? selected_ : std::max<uint64_t>(2, members.size() / 4);
    const ClockTable::Within within = members.within(lead_max_);
    return within.held >= std::min<uint64_t>(selected, within.members);
  }
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    return !row.held && members.lead(row) <= lead_max_;
  }
  const char* waiting_reason() const override {
    return "it was not selected, or its group waits for more workers";
  }

 private:
  uint64_t selected_, lead_max_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_wsp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers,
                  parse_pace_numbers("wsp", parameters.empty() ? "0,5" : parameters, kNumbers));
  return std::make_unique<WspPace>(numbers[0], numbers[1]);
}

}  // namespace paceline
