// Post-local SGD (Lin et al., ICLR 2020): an exchange after every step until the learning rate
// falls for the first time, local steps from then on, which is said to generalise better.
#include "runtime/base/limits.h"
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kDefaultTau = 4;

class PostLocalFreq final : public Freq {
 public:
  explicit PostLocalFreq(uint32_t tau)
      : later_tau_(tau), reason_("every step until the rate falls") {}

  void observe(const FleetEvaluation& evaluation) override {
    if (local_ || !(evaluation.rate_share > 0 && evaluation.rate_share < 1)) return;
    local_ = true;
    reason_ = format_text("the rate has fallen: %u local steps", later_tau_);
  }

  uint32_t tau() const override { return local_ ? later_tau_ : 1; }
  bool follows_link() const override { return false; }
  const std::string& reason() const override { return reason_; }

  void save(ByteWriter* out) const override {
    out->put(later_tau_);
    out->put(static_cast<uint32_t>(local_));
    out->put_text(reason_);
  }

  Status restore(ByteReader* in) override {
    PACELINE_ASSIGN(const uint32_t later_tau, in->get<uint32_t>());
    PACELINE_ASSIGN(const uint32_t local, in->get<uint32_t>());
    PACELINE_ASSIGN(std::string reason, in->get_text(kReasonBytesMax));
    if (later_tau < 1 || later_tau > kTauMax || local > 1)
      return fail(Code::kCorrupt, "post_local state: tau %u, %u", later_tau, local);
    later_tau_ = later_tau;
    local_ = local == 1;
    reason_ = std::move(reason);
    return {};
  }

 private:
  uint32_t later_tau_;
  std::string reason_;
  bool local_ = false;
};

}  // namespace

Result<std::unique_ptr<Freq>> make_post_local_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("post_local", parameter, kDefaultTau));
  return std::make_unique<PostLocalFreq>(tau);
}

}  // namespace paceline
