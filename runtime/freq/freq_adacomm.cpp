// AdaComm (Wang, Joshi, SysML 2019): few exchanges at first, for speed; more later, for a low
// floor. After every few evaluations tau = ceil(sqrt(first rate / rate * loss / first loss) * first
// tau); where that is no less than before, half of what it was.
//
// The loss is the fleet's on its hold-outs instead of the training loss, and time is counted in
// evaluations. Some code in the wild has the first tau under the root: that is another rule.
#include <algorithm>
#include <cmath>

#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kFirstTau = 16;
constexpr uint32_t kEvaluationsPerChange = 5;

class AdacommFreq final : public Freq {
 public:
  explicit AdacommFreq(uint32_t tau)
      : first_tau_(tau), tau_(tau), reason_(format_text("start at %u", tau)) {}

  void observe(const FleetEvaluation& evaluation) override {
    if (!(evaluation.loss > 0 && evaluation.loss < 1e30)) return;
    if (!(evaluation.rate_share > 0 && evaluation.rate_share < 1e6)) return;
    loss_sum_ += evaluation.loss;
    if (++count_ < kEvaluationsPerChange) return;
    const double loss = loss_sum_ / kEvaluationsPerChange;
    loss_sum_ = 0;
    count_ = 0;
    if (first_loss_ == 0) {
      first_loss_ = loss;
      reason_ = format_text("hold %u: the first loss is %.4f", tau_, loss);
      return;
    }
    const double factor = std::sqrt(loss / first_loss_ / evaluation.rate_share);
    const double wanted = std::ceil(std::min(factor * first_tau_, double{kTauMax}));
    const uint32_t before = tau_;
    tau_ = wanted < before ? std::max(static_cast<uint32_t>(wanted), 1u) : (before + 1) / 2;
    reason_ = format_text("loss %.4f of %.4f at first: %u -> %u", loss, first_loss_, before, tau_);
  }

  uint32_t tau() const override { return tau_; }
  bool follows_link() const override { return false; }
  const std::string& reason() const override { return reason_; }

  void save(ByteWriter* out) const override {
    out->put(first_tau_);
    out->put(tau_);
    out->put(count_);
    out->put(loss_sum_);
    out->put(first_loss_);
    out->put_text(reason_);
  }

  Status restore(ByteReader* in) override {
    AdacommFreq saved(1);
    PACELINE_ASSIGN(saved.first_tau_, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.tau_, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.count_, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.loss_sum_, in->get<double>());
    PACELINE_ASSIGN(saved.first_loss_, in->get<double>());
    PACELINE_ASSIGN(saved.reason_, in->get_text(kReasonBytesMax));
    const bool numbers = saved.loss_sum_ >= 0 && saved.loss_sum_ < 1e31 && saved.first_loss_ >= 0 &&
                         saved.first_loss_ < 1e31;
    if (saved.tau_ < 1 || saved.tau_ > kTauMax || saved.first_tau_ < 1 ||
        saved.first_tau_ > kTauMax || saved.count_ >= kEvaluationsPerChange || !numbers)
      return fail(Code::kCorrupt, "adacomm state: tau %u of %u", saved.tau_, saved.first_tau_);
    *this = std::move(saved);
    return {};
  }

 private:
  uint32_t first_tau_, tau_;
  std::string reason_;
  uint32_t count_ = 0;  // evaluations since the last change
  double loss_sum_ = 0;
  double first_loss_ = 0;  // 0: not known yet
};

}  // namespace

Result<std::unique_ptr<Freq>> make_adacomm_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("adacomm", parameter, kFirstTau));
  return std::make_unique<AdacommFreq>(tau);
}

}  // namespace paceline
