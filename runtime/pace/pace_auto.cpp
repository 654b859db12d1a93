// The pace that is chosen by measurement (our definition; docs/paces.md): it is compat until told
// otherwise. Which rule is in force decides PacePolicy (policy.h), by way of the Director.
#include <utility>

#include "runtime/pace/pace.h"
#include "runtime/pace/parameters.h"
#include "runtime/pace/policy.h"

namespace paceline {

namespace {

class AutoPace final : public Pace {
 public:
  explicit AutoPace(std::unique_ptr<Pace> rule) : rule_(std::move(rule)) {}
  void replace_rule(std::unique_ptr<Pace> rule) override {
    rule_ = std::move(rule);
    revise();
  }
  Apply apply() const override { return rule_->apply(); }
  Divisor divisor() const override { return rule_->divisor(); }
  bool has_rounds() const override { return rule_->has_rounds(); }
  bool closes(const ClockTable& members) const override { return rule_->closes(members); }
  bool releases(const ClockTable& members, const PaceRow& row) const override {
    return rule_->releases(members, row);
  }
  bool elastic() const override { return rule_->elastic(); }
  bool cuts(const ClockTable& members) const override { return rule_->cuts(members); }
  uint32_t iterations(uint32_t worker) const override { return rule_->iterations(worker); }
  bool publishes(const ClockTable& members, uint64_t applied, bool interval_over) const override {
    return rule_->publishes(members, applied, interval_over);
  }
  void pushed(const ClockTable& members, const PaceRow& row, TimeUs now) override {
    rule_->pushed(members, row, now);
  }
  void closed(const ClockTable& members, TimeUs now) override { rule_->closed(members, now); }
  void members_changed(const ClockTable& members, TimeUs now) override {
    rule_->members_changed(members, now);
  }
  void progressed(double share) override { rule_->progressed(share); }
  const char* waiting_reason() const override { return rule_->waiting_reason(); }

 private:
  // One of kPaceCandidates: none of them revises its answers by itself.
  std::unique_ptr<Pace> rule_;
};

}  // namespace

Result<std::unique_ptr<Pace>> make_auto_pace(std::string_view parameters) {
  PACELINE_TRY(parse_no_pace_numbers("auto", parameters));
  PACELINE_ASSIGN(std::unique_ptr<Pace> first, make_pace(kPaceCandidates[0].name));
  return std::make_unique<AutoPace>(std::move(first));
}

}  // namespace paceline
