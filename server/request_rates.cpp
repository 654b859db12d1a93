#include "server/request_rates.h"

#include <algorithm>

namespace paceline {

namespace {
constexpr TimeUs kForgetEveryUs = from_ms(10'000);
}  // namespace

std::optional<TimeUs> RequestRates::take(const std::string& who, size_t bytes, TimeUs now) {
  forget(now);
  Source& source = sources_[who];
  while (!source.waiting.empty() && source.waiting.front() <= now) source.waiting.pop_front();
  const auto paid_after = [now](TimeUs paid_us, double seconds) {
    return std::max(paid_us, now) + static_cast<TimeUs>(seconds * 1e6);
  };
  const TimeUs requests_paid_us = paid_after(source.requests_paid_us, 1 / limits_.requests_per_s);
  const TimeUs bytes_paid_us =
      paid_after(source.bytes_paid_us, static_cast<double>(bytes) / limits_.bytes_per_s);
  const TimeUs serve_at =
      std::max(now, std::max(requests_paid_us, bytes_paid_us) - limits_.burst_us);
  if (serve_at > now) {
    if (source.waiting.size() >= limits_.waiting_max ||
        waiting_bytes_ + bytes > limits_.waiting_bytes_max)
      return std::nullopt;
    source.waiting.push_back(serve_at);
    waiting_.push({serve_at, bytes});
    waiting_bytes_ += bytes;
  }
  source.requests_paid_us = requests_paid_us;
  source.bytes_paid_us = bytes_paid_us;
  return serve_at;
}

// Whose requests are served and paid for is as one who never came.
void RequestRates::forget(TimeUs now) {
  while (!waiting_.empty() && waiting_.top().serve_at <= now) {
    waiting_bytes_ -= waiting_.top().bytes;
    waiting_.pop();
  }
  if (now < forget_at_) return;
  forget_at_ = now + kForgetEveryUs;
  std::erase_if(sources_, [now](const auto& entry) {
    return std::max(entry.second.requests_paid_us, entry.second.bytes_paid_us) <= now;
  });
}

}  // namespace paceline
