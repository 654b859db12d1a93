// tau from the trend of the fleet's evaluations (our definition; docs/freqs.md).
//
// Over the last 5 to 8 evaluations of the loss: a least-squares slope that is below -2 standard
// errors is a clear fall (the model climbs: talk less, tau doubles); one above +2 standard errors
// is a clear rise (talk more, tau halves); anything else says nothing and tau stays. At least 5
// evaluations lie between two changes, all of them made at the present tau. The loss, not the
// accuracy: on small hold-outs an accuracy moves in steps as large as the trend.
#include <algorithm>
#include <cmath>
#include <deque>

#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kFirstTau = 2;  // docs/decisions/0006
constexpr uint32_t kLargestTau = 64;
constexpr size_t kWindowMin = 5;
constexpr size_t kWindowMax = 8;
constexpr double kStandardErrors = 2;

struct Slope {
  double value = 0;
  double error = 0;  // standard error of `value`
};

// Least squares of y over 0, 1, 2, ...; y.size() >= 3.
Slope fit(const std::deque<double>& y) {
  const double n = static_cast<double>(y.size());
  const double mean_x = (n - 1) / 2;
  double mean_y = 0;
  for (double value : y) mean_y += value;
  mean_y /= n;
  double xx = 0, xy = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double dx = static_cast<double>(i) - mean_x;
    xx += dx * dx;
    xy += dx * (y[i] - mean_y);
  }
  const double slope = xy / xx;
  double squares = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double rest = y[i] - mean_y - slope * (static_cast<double>(i) - mean_x);
    squares += rest * rest;
  }
  return {slope, std::sqrt(squares / (n - 2) / xx)};
}

class TrendFreq final : public Freq {
 public:
  explicit TrendFreq(uint32_t tau)
      : tau_(tau), reason_(format_text("start at %u, no trend yet", tau)) {}

  void observe(const FleetEvaluation& evaluation) override {
    losses_.push_back(evaluation.loss);
    if (losses_.size() > kWindowMax) losses_.pop_front();
    if (losses_.size() < kWindowMin) return;
    const Slope slope = fit(losses_);
    const double clear = kStandardErrors * slope.error;
    if (slope.value < -clear) {
      change(std::max(tau_, std::min(2 * tau_, kLargestTau)), slope, "falls", "talk less");
    } else if (slope.value > clear) {
      change(std::max(tau_ / 2, 1u), slope, "rises", "talk more");
    } else {
      reason_ = format_text("hold %u: signal too weak, loss slope %+.4f +- %.4f", tau_, slope.value,
                            slope.error);
    }
  }

  uint32_t tau() const override { return tau_; }
  bool follows_link() const override { return true; }
  const std::string& reason() const override { return reason_; }

  void save(ByteWriter* out) const override {
    out->put(tau_);
    out->put(static_cast<uint32_t>(losses_.size()));
    for (double loss : losses_) out->put(loss);
  }

  Status restore(ByteReader* in) override {
    PACELINE_ASSIGN(const uint32_t tau, in->get<uint32_t>());
    PACELINE_ASSIGN(const uint32_t count, in->get<uint32_t>());
    if (tau < 1 || tau > kTauMax || count > kWindowMax)
      return fail(Code::kCorrupt, "trend state: tau %u, %u losses", tau, count);
    std::deque<double> losses;
    for (uint32_t i = 0; i < count; ++i) {
      PACELINE_ASSIGN(const double loss, in->get<double>());
      losses.push_back(loss);
    }
    tau_ = tau;
    losses_ = std::move(losses);
    reason_ = format_text("resumed at %u", tau_);
    return {};
  }

 private:
  void change(uint32_t tau, Slope slope, const char* what, const char* so) {
    reason_ = format_text("loss %s %.4f +- %.4f per evaluation: %s, %u -> %u", what,
                          std::fabs(slope.value), slope.error, so, tau_, tau);
    tau_ = tau;
    losses_.clear();
  }

  uint32_t tau_;
  std::string reason_;
  std::deque<double> losses_;  // since the last change
};

}  // namespace

Result<std::unique_ptr<Freq>> make_trend_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("trend", parameter, kFirstTau));
  return std::make_unique<TrendFreq>(tau);
}

}  // namespace paceline
