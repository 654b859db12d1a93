// tau that makes the most of a budget of time (Wang et al., INFOCOM 2018, "adaptive federated
// learning"): of 1 to ten times the present one, the tau at which their bound on the loss after the
// budget is lowest:
//
//   T = R tau / (c tau + b)                              steps that the budget R allows
//   h = delta / beta ((eta beta + 1)^tau - 1) - eta delta tau
//   (1 + sqrt(1 + 4 T^2 phi rho eta h / tau)) / (2 T eta phi) + rho h
//
// c and b are the times of a step and of an exchange. The paper measures the smoothness beta, the
// divergence delta and the slope rho on the workers; here they come from what the server sees: how
// the mean update turns, how far updates lie from it, how much the loss moved for it. phi is theirs
// for a small net. Without a planned end the budget is an hour.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kFirstTau = 4;
constexpr uint32_t kLargestTau = 64;
constexpr uint32_t kGrowth = 10;
constexpr double kPhi = 5e-5;
constexpr double kUnplannedUs = 3600e6;
constexpr double kKept = 0.9;          // of each smoothed estimate
constexpr uint32_t kRoundsMin = 10;    // at a tau before it can change
constexpr double kNotableGain = 0.02;  // a bound lower by less is no reason to change

bool usable(double value) { return value > 0 && value < 1e30; }

class BudgetFreq final : public Freq {
 public:
  explicit BudgetFreq(uint32_t tau)
      : tau_(tau), reason_(format_text("start at %u, nothing measured yet", tau)) {}

  void observe(const FleetEvaluation& evaluation) override {
    if (!usable(evaluation.loss)) return;
    if (loss_ > 0 && moved_ > 0)
      smooth(&estimates_.slope, std::fabs(evaluation.loss - loss_) / moved_);
    loss_ = evaluation.loss;
    moved_ = 0;
  }

  void observe_round(const RoundFacts& round) override {
    const double way = round.rate * round.tau;  // from a mean update to a mean gradient
    if (!usable(round.mean_norm) || !usable(way)) return;
    moved_ += round.mean_norm;
    if (usable(round.spread)) smooth(&estimates_.divergence, round.spread / way);
    if (usable(round.turn) && mean_before_ > 0)
      smooth(&estimates_.smoothness, round.turn / way / mean_before_);
    mean_before_ = round.mean_norm;
    if (round.tau != tau_ || ++rounds_ < kRoundsMin) return;
    if (!usable(estimates_.slope) || !usable(estimates_.divergence) ||
        !usable(estimates_.smoothness) || !usable(round.step_us))
      return;
    choose(round);
  }
  bool wants_rounds() const override { return true; }

  uint32_t tau() const override { return tau_; }
  bool follows_link() const override { return false; }
  const std::string& reason() const override { return reason_; }

  void save(ByteWriter* out) const override {
    out->put(tau_);
    out->put(rounds_);
    for (const double value : {estimates_.slope, estimates_.divergence, estimates_.smoothness,
                               loss_, moved_, mean_before_})
      out->put(value);
    out->put_text(reason_);
  }

  Status restore(ByteReader* in) override {
    BudgetFreq saved(1);
    PACELINE_ASSIGN(saved.tau_, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.rounds_, in->get<uint32_t>());
    Estimates& estimates = saved.estimates_;
    for (double* value : {&estimates.slope, &estimates.divergence, &estimates.smoothness,
                          &saved.loss_, &saved.moved_, &saved.mean_before_}) {
      PACELINE_ASSIGN(*value, in->get<double>());
      if (!(*value >= 0)) return fail(Code::kCorrupt, "budget state: an estimate is no number");
    }
    PACELINE_ASSIGN(saved.reason_, in->get_text(kReasonBytesMax));
    if (saved.tau_ < 1 || saved.tau_ > kTauMax)
      return fail(Code::kCorrupt, "budget state: tau %u", saved.tau_);
    *this = std::move(saved);
    return {};
  }

 private:
  struct Estimates {
    double slope = 0;       // rho: change of the loss for a movement of the model
    double divergence = 0;  // delta: distance of a worker's gradient from the mean
    double smoothness = 0;  // beta: change of the mean gradient for a movement
  };

  static void smooth(double* estimate, double value) {
    if (!usable(value)) return;
    *estimate = *estimate == 0 ? value : kKept * *estimate + (1 - kKept) * value;
  }

  void choose(const RoundFacts& round) {
    const double budget_us = round.left_us > 0 ? round.left_us : kUnplannedUs;
    const double eta_beta = round.rate * estimates_.smoothness;
    double power = 1, best_bound = 0, present_bound = 0;
    uint32_t best = 0;
    const uint32_t largest = std::max(tau_, std::min(kGrowth * tau_, kLargestTau));
    for (uint32_t tau = 1; tau <= largest; ++tau) {
      power *= eta_beta + 1;
      const double h = std::max(0.0, estimates_.divergence / estimates_.smoothness * (power - 1) -
                                         round.rate * estimates_.divergence * tau);
      const double steps = budget_us * tau / (round.step_us * tau + round.exchange_us);
      const double way = steps * round.rate * kPhi;
      const double root =
          std::sqrt(1 + 4 * steps * steps * kPhi * estimates_.slope * round.rate * h / tau);
      const double bound = (1 + root) / (2 * way) + estimates_.slope * h;
      if (tau == tau_) present_bound = bound;
      if (best != 0 && !(bound < best_bound)) continue;
      best = tau;
      best_bound = bound;
    }
    if (best == tau_ || !(best_bound < (1 - kNotableGain) * present_bound)) {
      reason_ = format_text("hold %u: no other makes more of the time", tau_);
      return;
    }
    reason_ = format_text(
        "a step takes %.3g ms, an exchange %.3g ms, updates differ by %.3g: %u -> %u",
        round.step_us / 1e3, round.exchange_us / 1e3, estimates_.divergence, tau_, best);
    tau_ = best;
    rounds_ = 0;
  }

  uint32_t tau_;
  std::string reason_;
  uint32_t rounds_ = 0;  // at this tau
  Estimates estimates_;
  double loss_ = 0;         // of the last evaluation
  double moved_ = 0;        // since then
  double mean_before_ = 0;  // norm of the last mean update
};

}  // namespace

Result<std::unique_ptr<Freq>> make_budget_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("budget", parameter, kFirstTau));
  return std::make_unique<BudgetFreq>(tau);
}

}  // namespace paceline
