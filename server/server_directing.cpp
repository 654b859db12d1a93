// How fast members are, and what the Director makes of that: the directive that all get, and with
// pace = "auto" the rule.
#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {
constexpr size_t kRoundTimesKept = 9;  // their median: a start or a hiccup is one of them
// Rounds running in which a member's step has to be so much slower than the median's (kSlowFactor)
// before it does less. Who is tens of times as slow costs the others tens of steps for each of its
// own: such a round counts as many.
constexpr uint32_t kSlowRounds = 5;
constexpr double kVerySlowFactor = 10;
}  // namespace

void ServerCore::measure_round(std::span<Member* const> contributors, TimeUs now) {
  if (rounds_unmeasured_ > 0) {
    --rounds_unmeasured_;
  } else if (round_opened_at_ != kNever) {
    RoundTimes times;
    for (const Member* member : contributors)
      if (!does_less(*member))
        times.step_us = std::max(times.step_us, static_cast<double>(member->step_us));
    const double rest =
        static_cast<double>(now - round_opened_at_) - times.step_us * directive_.tau;
    times.exchange_us = std::max(rest, 0.0);
    round_times_.push_back(times);
    if (round_times_.size() > kRoundTimesKept) round_times_.pop_front();
  }
  round_opened_at_ = now;
}

void ServerCore::watch_speeds() {
  std::vector<double> steps;
  for (const Member& member : members_)
    if (member.counted && member.step_us > 0) steps.push_back(static_cast<double>(member.step_us));
  if (steps.empty()) return;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  median_step_us_ = *middle;
  for (Member& member : members_) {
    const double factor = static_cast<double>(member.step_us) / median_step_us_;
    const bool did_less = does_less(member);
    const auto weight =
        static_cast<uint32_t>(std::clamp(factor / kVerySlowFactor, 1.0, 1.0 * kSlowRounds));
    member.slow_rounds =
        factor > kSlowFactor ? std::min(member.slow_rounds + weight, kSlowRounds) : 0;
    if (does_less(member) && !did_less)
      log_info(
          "worker %s takes %.3g times as long for a step as the others: it does less, and they "
          "wait less",
          member.name.c_str(), factor);
  }
}

bool ServerCore::does_less(const Member& member) const {
  return pace_->elastic() && member.slow_rounds >= kSlowRounds;
}

// Its share of the directive's.
uint32_t ServerCore::tau_of(const Member& member) const {
  // Without rounds nobody waits for a thin link but its own worker.
  if (!pace_->has_rounds() && member.link.known())
    return director_.tau_of({static_cast<double>(member.step_us), member.link.cost()}, member.tau);
  if (!does_less(member)) return directive_.tau;
  const double share = median_step_us_ / static_cast<double>(member.step_us);
  return std::max(1u, static_cast<uint32_t>(directive_.tau * share));
}

double ServerCore::typical(double RoundTimes::*part) const {
  std::vector<double> values;
  for (const RoundTimes& times : round_times_) values.push_back(times.*part);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

FleetFacts ServerCore::fleet_facts() {
  FleetFacts facts;
  facts.publication = publication_;
  facts.progress = progress_;
  facts.step_us = typical(&RoundTimes::step_us);
  facts.exchange_us = typical(&RoundTimes::exchange_us);
  facts.settled = round_times_.size() == kRoundTimesKept;
  facts.rounds = pace_->has_rounds();
  facts.elastic = pace_->elastic();
  worker_costs_.clear();
  double losses = 0;
  for (const Member& member : members_) {
    if (!member.counted) continue;
    ++facts.members;
    losses += static_cast<double>(member.training_loss);
    facts.held_out_rows_max = std::max(facts.held_out_rows_max, member.held_out_rows);
    if (member.link.known())
      worker_costs_.push_back(
          {does_less(member) ? median_step_us_ : static_cast<double>(member.step_us),
           member.link.cost(), static_cast<double>(member.step_us)});
  }
  facts.workers = worker_costs_;
  if (facts.members > 0) facts.training_loss = losses / static_cast<double>(facts.members);
  return facts;
}

void ServerCore::compose_directive() {
  const Directive before = std::exchange(directive_, director_.compose(fleet_facts()));
  directive_.finish = finished_;
  if (directive_.tau != before.tau)
    log_info("exchange every %u steps: %s", directive_.tau, directive_.reason.c_str());
  note_codecs(before);
}

void ServerCore::choose_pace(TimeUs now) {
  if (!options_.pace_auto() || finished_) return;
  FleetFacts facts = fleet_facts();
  facts.now_us = static_cast<double>(now);
  follow_rule(director_.choose_pace(facts));
  refresh_table(now);
}

void ServerCore::follow_rule(const PaceCandidate& rule) {
  const std::string& reason = director_.pace().reason();
  if (reason != std::exchange(pace_reason_, reason))
    log_info("pace %s, because %s", rule.name, reason.c_str());
  if (std::exchange(pace_name_, rule.name) == rule.name) return;
  Result<std::unique_ptr<Pace>> pace = make_pace(rule.name);
  PACELINE_CHECK(pace.has_value());
  pace_->replace_rule(std::move(*pace));
  level_clocks();
  // Times of the other rule's rounds say nothing of this one's.
  round_times_.clear();
  rounds_unmeasured_ = 1;
}

// Bounds on a lead are about the rule in force: under a new one all begin together. Who holds an
// update is one further already.
void ServerCore::level_clocks() {
  const auto begun_at = [](const Member& member) {
    return member.clock - std::min<uint64_t>(member.clock, member.held ? 1 : 0);
  };
  uint64_t slowest = UINT64_MAX;
  for (const Member& member : members_)
    if (member.counted) slowest = std::min(slowest, begun_at(member));
  for (Member& member : members_) {
    if (!member.counted) continue;
    member.clock = slowest + (member.held ? 1 : 0);
    member.unrecorded = true;
  }
}

}  // namespace paceline
