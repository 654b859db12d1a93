// Stale synchronous parallel (Ho et al., NIPS 2013), as a rule on starting: a push never blocks; a
// worker whose clock is c may start its next iteration only if c - smallest clock <= s (inclusive).
// So the largest lead that can be seen, right after a push, is s + 1. Differs from the paper's
// client cache: here the bound is held at the server, where the clocks are.
#include <charconv>

#include "runtime/pace/pace.h"

namespace paceline {

namespace {

constexpr uint32_t kDefaultBound = 3;
constexpr uint32_t kBoundMax = 10'000;

class SspPace final : public Pace {
 public:
  explicit SspPace(uint32_t bound) : bound_(bound) {}
  Apply apply() const override { return Apply::kNow; }
  Divisor divisor() const override { return Divisor::kMembers; }
  bool closes(std::span<const PaceRow>) const override { return false; }
  bool releases(std::span<const PaceRow> members, const PaceRow& row) const override {
    return row.clock <= smallest_clock(members) + bound_;
  }
  const char* waiting_reason() const override {
    return "it is too far ahead of the slowest worker";
  }

 private:
  uint32_t bound_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_ssp_pace(std::string_view parameter) {
  uint32_t bound = kDefaultBound;
  if (!parameter.empty()) {
    const char* end = parameter.data() + parameter.size();
    const auto [rest, error] = std::from_chars(parameter.data(), end, bound);
    if (error != std::errc() || rest != end || bound > kBoundMax)
      return fail(Code::kInvalidArgument,
                  "pace ssp takes how many exchanges a worker may lead by, 0 to %u: \"ssp:3\"",
                  kBoundMax);
  }
  return std::make_unique<SspPace>(bound);
}

}  // namespace paceline
