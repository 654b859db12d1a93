// tau from the agreement of the workers' updates (our definition; docs/freqs.md).
//
// The right tau depends on how much the boards' data differ, and no configuration says that. The
// updates do: where they pull the same way, local steps are good for all and tau doubles; where
// they pull apart, boards drift and tau halves. Measured against the agreement within one worker's
// path: what is missing there is the noise of mini-batches, which a smaller tau would not mend.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kFirstTau = 4;
constexpr uint32_t kLargestTau = 64;
constexpr uint32_t kWorkersMin = 3;  // two that differ say nothing about a fleet
constexpr double kKept = 0.9;        // of the smoothed agreement: about the last ten rounds
constexpr uint32_t kRoundsMin = 10;  // at a tau before it can change
constexpr uint32_t kVotes = 3;       // rounds running that have to say the same
constexpr double kApart = 0.25, kTogether = 0.5;
constexpr double kSelfMin = 0.05;  // below it everything is noise

class AgreementFreq final : public Freq {
 public:
  explicit AgreementFreq(uint32_t tau)
      : tau_(tau), reason_(format_text("start at %u, nothing measured yet", tau)) {}

  void observe(const FleetEvaluation&) override {}

  void observe_round(const RoundFacts& round) override {
    // Rounds of another tau, as the link or the end of a run make them, say nothing about this one.
    if (round.tau != tau_ || round.workers < kWorkersMin) return;
    const bool possible =
        round.cross >= -1.01 && round.cross <= 1.01 && round.self >= 0 && round.self <= 1.01;
    if (!possible) return;
    ++rounds_;
    cross_ = kKept * cross_ + (1 - kKept) * round.cross;
    self_ = kKept * self_ + (1 - kKept) * (round.self > 0 ? round.self : 1);
    weight_ = kKept * weight_ + (1 - kKept);
    if (self_ < kSelfMin * weight_) {
      votes_ = 0;
      reason_ = format_text("hold %u: the updates are noise", tau_);
      return;
    }
    const double agreement = cross_ / self_;
    const int vote = agreement < kApart ? -1 : agreement > kTogether ? 1 : 0;
    votes_ = vote * votes_ > 0 || votes_ == 0 ? votes_ + vote : vote;
    if (vote == 0) votes_ = 0;
    const auto clear = static_cast<uint32_t>(votes_ < 0 ? -votes_ : votes_) >= kVotes;
    if (!clear || rounds_ < kRoundsMin) {
      reason_ = format_text("hold %u: updates agree by %.2f", tau_, agreement);
      return;
    }
    if (votes_ < 0) {
      change(std::max(tau_ / 2, 1u), agreement, "only ", "talk more");
    } else {
      change(std::max(tau_, std::min(2 * tau_, kLargestTau)), agreement, "", "talk less");
    }
  }
  bool wants_rounds() const override { return true; }

  uint32_t tau() const override { return tau_; }
  bool follows_link() const override { return true; }
  const std::string& reason() const override { return reason_; }

  void save(ByteWriter* out) const override {
    out->put(tau_);
    out->put(rounds_);
    out->put(static_cast<uint32_t>(votes_ + static_cast<int>(kVotesKept)));
    out->put(cross_);
    out->put(self_);
    out->put(weight_);
    out->put_text(reason_);
  }

  Status restore(ByteReader* in) override {
    AgreementFreq saved(1);
    PACELINE_ASSIGN(saved.tau_, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.rounds_, in->get<uint32_t>());
    PACELINE_ASSIGN(const uint32_t votes, in->get<uint32_t>());
    PACELINE_ASSIGN(saved.cross_, in->get<double>());
    PACELINE_ASSIGN(saved.self_, in->get<double>());
    PACELINE_ASSIGN(saved.weight_, in->get<double>());
    PACELINE_ASSIGN(saved.reason_, in->get_text(kReasonBytesMax));
    const bool numbers = saved.cross_ >= -2 && saved.cross_ <= 2 && saved.self_ >= 0 &&
                         saved.self_ <= 2 && saved.weight_ >= 0 && saved.weight_ <= 1;
    if (saved.tau_ < 1 || saved.tau_ > kTauMax || votes > 2 * kVotesKept || !numbers)
      return fail(Code::kCorrupt, "agreement state: tau %u, %u votes", saved.tau_, votes);
    saved.votes_ = static_cast<int>(votes) - static_cast<int>(kVotesKept);
    *this = std::move(saved);
    return {};
  }

 private:
  static constexpr uint32_t kVotesKept = 1u << 30;

  void change(uint32_t tau, double agreement, const char* only, const char* so) {
    reason_ = format_text("updates agree by %s%.2f: %s, %u -> %u", only, agreement, so, tau_, tau);
    tau_ = tau;
    rounds_ = 0;
    votes_ = 0;
    cross_ = self_ = weight_ = 0;
  }

  uint32_t tau_;
  std::string reason_;
  uint32_t rounds_ = 0;  // at this tau
  int votes_ = 0;        // rounds running for more (above 0) or fewer local steps
  // Smoothed sums and the weight that they have: the first round counts in full.
  double cross_ = 0, self_ = 0, weight_ = 0;
};

}  // namespace

Result<std::unique_ptr<Freq>> make_agreement_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("agreement", parameter, kFirstTau));
  return std::make_unique<AgreementFreq>(tau);
}

}  // namespace paceline
