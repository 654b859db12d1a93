#include "runtime/pace/pace.h"

#include <algorithm>

namespace paceline {

#define PACE(name, description) \
  Result<std::unique_ptr<Pace>> make_##name##_pace(std::string_view parameter);
#include "runtime/pace/paces.inc"
#undef PACE

namespace {

constexpr PaceInfo kPaces[] = {
#define PACE(name, description) {#name, description},
#include "runtime/pace/paces.inc"
#undef PACE
};

}  // namespace

std::span<const PaceInfo> paces() { return kPaces; }

uint64_t smallest_clock(std::span<const PaceRow> members) {
  uint64_t smallest = members.empty() ? 0 : UINT64_MAX;
  for (const PaceRow& row : members) smallest = std::min(smallest, row.clock);
  return smallest;
}

Result<std::unique_ptr<Pace>> make_pace(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const std::string_view parameter =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
#define PACE(known, description) \
  if (name == #known) return make_##known##_pace(parameter);
#include "runtime/pace/paces.inc"
#undef PACE
  std::string names;
  for (const PaceInfo& info : kPaces) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return fail(Code::kInvalidArgument, "no pace is named '%.*s'; there are %s",
              static_cast<int>(std::min(name.size(), size_t{40})), name.data(), names.c_str());
}

}  // namespace paceline
