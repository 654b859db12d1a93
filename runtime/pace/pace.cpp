#include "runtime/pace/pace.h"

#include <algorithm>
#include <cmath>

namespace paceline {

#define PACE(name, description) \
  Result<std::unique_ptr<Pace>> make_##name##_pace(std::string_view parameters);
#include "runtime/pace/paces.inc"
#undef PACE

namespace {

constexpr std::string_view kStaleSuffix = "+stale";

constexpr PaceInfo kPaces[] = {
#define PACE(name, description) {#name, description},
#include "runtime/pace/paces.inc"
#undef PACE
};

Result<std::unique_ptr<Pace>> make_by_name(std::string_view name, std::string_view parameters) {
#define PACE(known, description) \
  if (name == #known) return make_##known##_pace(parameters);
#include "runtime/pace/paces.inc"
#undef PACE
  std::string names;
  for (const PaceInfo& info : kPaces) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return fail(Code::kInvalidArgument, "no pace is named '%.*s'; there are %s",
              static_cast<int>(std::min(name.size(), size_t{40})), name.data(), names.c_str());
}

}  // namespace

std::span<const PaceInfo> paces() { return kPaces; }

double Pace::weight(uint64_t staleness) const {
  // A staleness beyond 2^53 is none of ours; sqrt is exact in IEEE arithmetic, so equal bytes hold.
  const auto versions = static_cast<double>(staleness);
  switch (staleness_weight_) {
    case StalenessWeight::kReciprocal:
      return 1 / std::max(1.0, versions);
    case StalenessWeight::kReciprocalRoot:
      return 1 / std::sqrt(1 + versions);
    case StalenessWeight::kNone:
      break;
  }
  return 1;
}

Result<std::unique_ptr<Pace>> make_pace(std::string_view text) {
  const bool stale = text.ends_with(kStaleSuffix);
  if (stale) text.remove_suffix(kStaleSuffix.size());
  const size_t colon = text.find(':');
  PACELINE_ASSIGN(
      std::unique_ptr<Pace> pace,
      make_by_name(text.substr(0, colon),
                   colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1)));
  if (stale) pace->set_staleness_weight(StalenessWeight::kReciprocal);
  return pace;
}

}  // namespace paceline
