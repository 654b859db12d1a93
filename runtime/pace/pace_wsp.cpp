// Worker-selection parallel (our definition: the publication's idea is to balance stale versions
// against slow workers by selecting who goes on). A close needs m workers that wait and are at most
// s exchanges ahead of the slowest; these go on. Who is further ahead stays; its update is applied
// with the close, like every other that is held, and once the slowest has moved it counts for the
// next one.
//
// A line from ssp (m = 1, whose timing it has) to bsp (m = all members); no bound on s makes it
// lsp. Fewer than m close when no more can come: without that all would wait for all.
#include <algorithm>
#include <vector>

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
    const uint64_t eligible = within.held + stayed_within_;
    const uint64_t parked =
        (members.held_count() - within.held) + (stayed_.size() - stayed_within_);
    return eligible >= std::min<uint64_t>(selected, members.size() - parked);
  }
  bool releases(const ClockTable&, const PaceRow& row) const override {
    return !row.held && !stays(row.worker_id);
  }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs) override {
    pushed_.push_back(row.worker_id);
    if (members.smallest_clock() != counted_at_) count_stayed(members);
  }
  void closed(const ClockTable& members, TimeUs) override {
    stayed_.insert(stayed_.end(), pushed_.begin(), pushed_.end());
    pushed_.clear();
    release_eligible(members);
  }
  void members_changed(const ClockTable& members, TimeUs) override {
    const auto gone = [&](uint32_t id) { return members.find(id) == nullptr; };
    std::erase_if(pushed_, gone);
    // When the slowest leaves nobody may be left to push: who may go on does not wait for a close.
    release_eligible(members);
  }
  const char* waiting_reason() const override {
    return "it was not selected, or its group waits for more workers";
  }

 private:
  bool stays(uint32_t id) const { return id < stays_.size() && stays_[id]; }

  void release_eligible(const ClockTable& members) {
    std::erase_if(stayed_, [&](uint32_t id) {
      const PaceRow* row = members.find(id);
      const bool released = row == nullptr || members.lead(*row) <= lead_max_;
      if (id >= stays_.size()) stays_.resize(size_t{id} + 1);
      stays_[id] = !released;
      return released;
    });
    revise();
    count_stayed(members);
  }

  void count_stayed(const ClockTable& members) {
    counted_at_ = members.smallest_clock();
    stayed_within_ = static_cast<uint64_t>(std::ranges::count_if(stayed_, [&](uint32_t id) {
      const PaceRow* row = members.find(id);
      return row != nullptr && members.lead(*row) <= lead_max_;
    }));
  }

  uint64_t selected_, lead_max_;
  std::vector<uint32_t> pushed_;  // since the last close
  std::vector<uint32_t> stayed_;  // whose update is applied, and who have not gone on
  std::vector<bool> stays_;       // by worker id: is in stayed_
  uint64_t stayed_within_ = 0;    // of stayed_, at most lead_max_ ahead when the slowest was at
  uint64_t counted_at_ = 0;       // this clock
};

}  // namespace

Result<std::unique_ptr<Pace>> make_wsp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers,
                  parse_pace_numbers("wsp", parameters.empty() ? "0,5" : parameters, kNumbers));
  return std::make_unique<WspPace>(numbers[0], numbers[1]);
}

}  // namespace paceline
