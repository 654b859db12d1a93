// Stale synchronous parallel (Ho et al., NIPS 2013), as a rule on starting: a push never blocks; a
// worker whose clock is c may start its next iteration only if c - smallest clock <= s (inclusive).
// So the largest lead that can be seen, right after a push, is s + 1. Differs from the paper's
// client cache: here the bound is held at the server, where the clocks are.
#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"

namespace paceline {

namespace {

constexpr PaceNumber kNumbers[] = {{"how many exchanges a worker may lead by", 3, 0, 10'000}};

class SspPace final : public Pace {
 public:
  explicit SspPace(uint32_t bound) : bound_(bound) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    return members.lead(row) <= bound_;
  }
  const char* waiting_reason() const override {
    return "it is too far ahead of the slowest worker";
  }

 private:
  uint32_t bound_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_ssp_pace(std::string_view parameters) {
  PACELINE_ASSIGN(const auto numbers, parse_pace_numbers("ssp", parameters, kNumbers));
  return std::make_unique<SspPace>(numbers[0]);
}

}  // namespace paceline
