#include <algorithm>
#include <cmath>

#include "runtime/content/content.h"

namespace paceline {

namespace {

constexpr double kLostShareMax = 0.99;
// Updates' worth that wait to be sent. Below the first nothing is wrong; above it, a growth by the
// second factor within the trend's rounds is a residual that runs away.
constexpr double kBacklogHarmless = 2;
constexpr double kBacklogGrowth = 1.5;
constexpr double kSettlingDelays = 3;

double median(std::span<const double> values) {
  RecentMedian result;
  for (const double value : values) result.add(value);
  return result.value();
}

bool is_norm(double value) { return value >= 0 && std::isfinite(value); }

bool are_norms(const CodingNorms& norms) {
  return is_norm(norms.update) && is_norm(norms.coded) && is_norm(norms.residual);
}

void add_share(const CodingNorms& norms, RecentMedian* shares) {
  const double kept_back = norms.residual / norms.coded;
  shares->add(std::min(kept_back * kept_back, 1.0));
}

}  // namespace

void LossEstimate::observe(CodecId codec, const CodingNorms& norms) {
  if (!are_norms(norms)) return;
  if (norms.coded > 0) add_share(norms, &lost_[codec]);
  if (norms.update > 0) {
    backlog_sum_ += norms.residual / norms.update;
    ++backlog_count_;
  }
}

double LossEstimate::lost_share(const CodecInfo& codec) const {
  if (!codec.lossy) return 0;  // whatever a worker says
  double lost = codec.kept_back;
  // The first changes of a model are easier to say than what follows: less than usual is not
  // believed.
  if (const auto used = lost_.find(codec.id); used != lost_.end())
    lost = std::max(lost, used->second.value());
  return std::min(lost, kLostShareMax);
}

std::string LossEstimate::losing(CodecId codec) {
  const CodecInfo& info = codec_info(codec);
  const double lost = lost_share(info);
  ++trend_rounds_;
  // A residual first builds up to what the codec's delay makes of it: no growth is seen in that.
  if (backlog_count_ > 0 && trend_rounds_ > kSettlingDelays * lost / (1 - lost)) {
    if (backlog_rounds_ == kTrendRounds) {
      std::shift_left(backlogs_.begin(), backlogs_.end(), 1);
      --backlog_rounds_;
    }
    backlogs_[backlog_rounds_++] = backlog_sum_ / backlog_count_;
  }
  backlog_sum_ = 0;
  backlog_count_ = 0;
  if (lost_.contains(codec) && lost > kLosingShare)
    return format_text("%s keeps back %.0f %% of what it is given", info.name, 100 * lost);
  if (backlog_rounds_ < kTrendRounds) return {};
  const std::span<const double> all = backlogs_;
  const double before = median(all.first(kTrendRounds / 2));
  const double after = median(all.last(kTrendRounds / 2));
  if (after < kBacklogHarmless || after < kBacklogGrowth * before) return {};
  return format_text("%s leaves %.1f updates unsent, %.1f a little before", info.name, after,
                     before);
}

void LossEstimate::begin_trend() {
  backlog_sum_ = 0;
  backlog_count_ = 0;
  backlog_rounds_ = 0;
  trend_rounds_ = 0;
}

}  // namespace paceline
