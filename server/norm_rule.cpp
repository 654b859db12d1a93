#include "server/norm_rule.h"

#include <algorithm>

namespace paceline {

namespace {

constexpr size_t kContributorsMin = 3;
constexpr uint64_t kSettlingRounds = 5;
constexpr float kRateChange = 0.1f;  // of the rate: a schedule's small steps are no change

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void NormHistory::remember(double norm, uint32_t exchange_tau) {
  if (exchange_tau != tau) norms.clear();
  tau = exchange_tau;
  norms.push_back(norm);
  if (norms.size() > kWindow) norms.erase(norms.begin());
}

double NormHistory::usual(uint32_t exchange_tau) const {
  if (exchange_tau != tau || norms.size() < kEnough) return 0;
  return median(norms);
}

double usual_of_round(std::span<const double> norms) {
  return norms.size() < kContributorsMin ? 0 : median({norms.begin(), norms.end()});
}

NormVerdict judge_norm(double norm, double usual_of_round, double usual_of_worker, bool only_clip) {
  NormVerdict verdict;
  const double usual = usual_of_round > 0 ? usual_of_round : usual_of_worker;
  if (!(usual > 0)) return verdict;
  verdict.times_usual = norm / usual;
  if (verdict.times_usual <= kNormClip) return verdict;
  // A board with few rows takes few, long steps every time: it is shortened, not turned away.
  const bool unlike_itself = !(usual_of_worker > 0) || norm > kNormRefuse * usual_of_worker;
  verdict.refused = (!only_clip && unlike_itself && verdict.times_usual > kNormRefuse) ||
                    verdict.times_usual > kNormAbsurd;
  verdict.clip = static_cast<float>(kNormClip / verdict.times_usual);
  return verdict;
}

bool NormSettling::settling(uint64_t generation, const Directive& directive, uint64_t round) {
  const float change = directive.rate > rate_ ? directive.rate - rate_ : rate_ - directive.rate;
  if (generation != generation_ || directive.tau != tau_ || directive.codec_up != codec_ ||
      change > kRateChange * rate_) {
    generation_ = generation;
    tau_ = directive.tau;
    codec_ = directive.codec_up;
    rate_ = directive.rate;
    until_round_ = round + kSettlingRounds;
  }
  return round < until_round_;
}

}  // namespace paceline
