// The same tau from start to end, whatever happens: the yardstick of the others.
#include "runtime/freq/freq.h"

namespace paceline {

namespace {

constexpr uint32_t kDefaultTau = 16;

class FixedFreq final : public Freq {
 public:
  explicit FixedFreq(uint32_t tau) : tau_(tau), reason_(format_text("fixed at %u", tau)) {}
  void observe(const FleetEvaluation&) override {}
  uint32_t tau() const override { return tau_; }
  bool follows_link() const override { return false; }
  const std::string& reason() const override { return reason_; }
  void save(ByteWriter*) const override {}
  Status restore(ByteReader*) override { return {}; }

 private:
  uint32_t tau_;
  std::string reason_;
};

}  // namespace

Result<std::unique_ptr<Freq>> make_fixed_freq(std::string_view parameter) {
  PACELINE_ASSIGN(const uint32_t tau, parse_tau("fixed", parameter, kDefaultTau));
  return std::make_unique<FixedFreq>(tau);
}

}  // namespace paceline
