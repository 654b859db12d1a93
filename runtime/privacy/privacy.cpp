#include "runtime/privacy/privacy.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

namespace {

// Orders are 1 + 2^(i / 8).
constexpr int kOrderLowest = -8 * 20;
constexpr int kOrderHighest = 8 * 20;

}  // namespace

Result<std::optional<PrivacySpec>> parse_privacy(const Config& config) {
  if (config.sections("privacy").empty()) return std::nullopt;
  PrivacySpec privacy;
  ConfigSection section = config.section("privacy");
  section.read("clip", &privacy.clip, 1e-6, 1e6);
  section.read("noise", &privacy.noise, 0.01, 100);
  section.read("delta", &privacy.delta, 1e-15, 1e-3);
  section.read("epsilon_max", &privacy.epsilon_max, 0, 1e9);
  PACELINE_TRY(section.finish());
  if (privacy.clip == 0 || privacy.noise == 0)
    return fail(Code::kInvalidArgument,
                "%s: [privacy] needs clip, the longest update in weight units, and noise, its sd "
                "in clips; clip = 0.05 and noise = 0.8 are a start",
                section.place_of(privacy.clip == 0 ? "clip" : "noise").c_str());
  return privacy;
}

double spent_epsilon(const PrivacySpec& privacy, uint64_t updates) {
  if (updates == 0) return 0;
  const double slope = static_cast<double>(updates) / (2 * privacy.noise * privacy.noise);
  double best = std::numeric_limits<double>::infinity();
  for (int i = kOrderLowest; i <= kOrderHighest; ++i) {
    const double above_one = std::exp2(i / 8.0);
    const double order = 1 + above_one;
    const double epsilon = slope * order + std::log(above_one / order) -
                           (std::log(privacy.delta) + std::log(order)) / above_one;
    best = std::min(best, epsilon);
  }
  return std::max(best, 0.0);
}

}  // namespace paceline
