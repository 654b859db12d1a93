#include <algorithm>
#include <cmath>

#include "runtime/content/content.h"

namespace paceline {

namespace {

// A transfer that hardly takes longer than its trips says only that the link is fast: of what it
// took, at least this share counts as carrying.
constexpr double kCarryingShareMin = 0.05;

void observe(const LinkEstimate::Transfer& transfer, double trip_us, RecentMedian* us_per_byte) {
  if (!(transfer.us > 0) || !(transfer.bytes > 0)) return;
  const double carrying_us =
      std::max(transfer.us - transfer.trips * trip_us, kCarryingShareMin * transfer.us);
  us_per_byte->add(carrying_us / transfer.bytes);
}

}  // namespace

void RecentMedian::add(double value) {
  values_[next_] = value;
  next_ = (next_ + 1) % values_.size();
  count_ = std::min(count_ + 1, values_.size());
}

double RecentMedian::value() const {
  if (count_ == 0) return 0;
  std::array<double, std::tuple_size_v<decltype(values_)>> sorted = values_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(count_ / 2);
  std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count_));
  return *middle;
}

void LinkEstimate::observe_trip(double us) {
  if (us >= 0 && std::isfinite(us)) trip_.add(us);
}

void LinkEstimate::observe_up(const Transfer& transfer) { observe(transfer, trip_.value(), &up_); }

void LinkEstimate::observe_down(const Transfer& transfer) {
  observe(transfer, trip_.value(), &down_);
}

}  // namespace paceline
