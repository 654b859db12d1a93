#include "runtime/freq/freq.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/limits.h"

namespace paceline {

#define FREQ(name, description) \
  Result<std::unique_ptr<Freq>> make_##name##_freq(std::string_view parameter);
#include "runtime/freq/freqs.inc"
#undef FREQ

namespace {

constexpr FreqInfo kFreqs[] = {
#define FREQ(name, description) {#name, description},
#include "runtime/freq/freqs.inc"
#undef FREQ
};

}  // namespace

std::span<const FreqInfo> freqs() { return kFreqs; }

Result<std::unique_ptr<Freq>> make_freq(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view parameter =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
#define FREQ(known, description) \
  if (name == #known) return make_##known##_freq(parameter);
#include "runtime/freq/freqs.inc"
#undef FREQ
  std::string names;
  for (const FreqInfo& info : kFreqs) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return fail(Code::kInvalidArgument, "no frequency policy is named '%.*s'; there are %s",
              static_cast<int>(std::min(name.size(), size_t{40})), name.data(), names.c_str());
}

Result<uint32_t> parse_tau(std::string_view policy, std::string_view text, uint32_t fallback) {
  if (text.empty()) return fallback;
  uint32_t tau = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, tau);
  if (error != std::errc() || rest != end || tau < 1 || tau > kTauMax)
    return fail(Code::kInvalidArgument, "%.*s takes local steps per exchange, 1 to %u: \"%.*s:16\"",
                static_cast<int>(policy.size()), policy.data(), kTauMax,
                static_cast<int>(policy.size()), policy.data());
  return tau;
}

}  // namespace paceline
