// Limited synchronous parallel (the limited barrier of the publication, as notes give it): as soon
// as l workers have pushed, those l are applied together and go on; nobody waits for the rest.
//
// Our definitions: the lag cap (a worker more than so many exchanges ahead waits for the slowest;
// without one a lead grows without bound), the close on fewer when no more can come, and the
// controller of "lsp:auto". With l = all members it is bsp, with l = 1 asp. The mean version
// staleness is n/l - 1.
#include <algorithm>
#include <limits>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {
    {"how many updates make a close (0: half of the workers) or auto", 2, 0, 10'000},
    {"how many exchanges a worker may lead by (0: any number)", 10, 0, 10'000}};
constexpr std::string_view kAuto = "auto";

constexpr uint32_t kClosesPerDecision = 20;
constexpr double kWaitShareMax = 0.15;  // of an iteration; above it the barrier gets smaller
constexpr double kLossWorse = 1.01;     // times the loss at the decision before

struct LspOptions {
  uint64_t limit = 0;  // 0: half of the members
  uint64_t lead_max = std::numeric_limits<uint64_t>::max();
  bool controlled = false;
};

class LspPace final : public Pace {
 public:
  explicit LspPace(LspOptions options) : options_(options) {}
  Apply apply() const override { return Apply::kHold; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool has_rounds() const override { return false; }
  bool closes(const ClockTable& members) const override {
    const ClockTable::Within within = members.within(options_.lead_max);
    // Who is beyond the cap and not held waits for the slowest: it can't push.
    const size_t able = within.members + (members.held_count() - within.held);
    return members.held_count() >= std::min<uint64_t>(limit(members), able);
  }
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    return !row.held && members.lead(row) <= options_.lead_max;
  }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs now) override {
    if (!options_.controlled) return;
    ++pushes_;
    push_times_ += static_cast<double>(now);
    iteration_us_ += static_cast<double>(row.iteration_us);
    losses_ += row.loss;
    limit_ = limit(members);
  }
  void closed(const ClockTable& members, TimeUs now) override {
    if (!options_.controlled) return;
    wait_us_ += static_cast<double>(now) * static_cast<double>(pushes_ - closed_) - push_times_;
    push_times_ = 0;
    closed_ = pushes_;
    if (++closes_ < kClosesPerDecision) return;
    uint64_t limit = limit_;
    const double loss = losses_ / static_cast<double>(std::max<uint64_t>(pushes_, 1));
    if (wait_us_ > kWaitShareMax * iteration_us_ && limit > 1) --limit;
    if (loss_before_ > 0 && loss > kLossWorse * loss_before_) ++limit;
    limit_ = std::min<uint64_t>(limit, members.size());
    loss_before_ = loss;
    pushes_ = closed_ = closes_ = 0;
    wait_us_ = iteration_us_ = losses_ = 0;
  }
  const char* waiting_reason() const override { return "its group waits for more workers"; }

 private:
  uint64_t limit(const ClockTable& members) const {
    if (limit_ > 0) return limit_;
    return options_.limit > 0 ? options_.limit : (members.size() + 1) / 2;
  }

  LspOptions options_;
  uint64_t limit_ = 0;  // of the controller; 0: not yet
  // Since the controller's last decision.
  uint64_t pushes_ = 0, closed_ = 0, closes_ = 0;
  double push_times_ = 0, wait_us_ = 0, iteration_us_ = 0, losses_ = 0;
  double loss_before_ = 0;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_lsp_pace(std::string_view parameters) {
  LspOptions options;
  std::string text(parameters.empty() ? "0,0" : parameters);
  if (text == kAuto || text.starts_with("auto,")) {
    options.controlled = true;
    text.replace(0, kAuto.size(), "0");
  }
  if (text.find(',') == std::string::npos) text += ",0";
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("lsp", text, kNumbers));
  options.limit = numbers[0];
  if (numbers[1] > 0) options.lead_max = numbers[1];
  return std::make_unique<LspPace>(options);
}

}  // namespace paceline
