#include "server/director.h"

#include <algorithm>
#include <utility>

#include "runtime/base/limits.h"

namespace paceline {

namespace {

// Share of a worker's time that evaluation may take; a forward pass costs a third of a step.
constexpr double kEvaluationShareMax = 0.05;
constexpr double kForwardShareOfStep = 1.0 / 3;
// The last part of a planned run exchanges at every step: local steps drift apart, and it shows at
// the end.
constexpr double kDenseFrom = 0.95;
// A slowest step that differs by so much is another board's: at the start, that of whoever was
// first.
constexpr double kOtherStep = 1.5;

}  // namespace

Director::Director(DirectorOptions options, std::unique_ptr<Freq> freq)
    : options_(options), freq_(std::move(freq)), content_(options.content) {}

void Director::observe(const FleetEvaluation& evaluation) { freq_->observe(evaluation); }

void Director::follow_link(const FleetFacts& facts) {
  // Without rounds each worker follows its own link.
  if (!facts.rounds) link_tau_ = 1;
  if (!facts.rounds || facts.step_us <= 0) return;
  // The dead band begins where enough was measured, and anew with other codecs or another slowest
  // board: what the first rounds cost says little.
  const bool other_step =
      facts.step_us >= kOtherStep * link_step_us_ || facts.step_us * kOtherStep <= link_step_us_;
  const bool settled = std::exchange(settled_, facts.settled);
  if (std::exchange(codecs_changed_, false) || other_step || !settled) {
    link_tau_ = 1;
    link_step_us_ = facts.step_us;
  }
  // An exchange should not take longer than the computing between two of them.
  link_tau_ = link_tau(link_tau_, facts.exchange_us, facts.step_us);
  link_reason_ = format_text("an exchange takes %.3g ms, a step %.3g ms", facts.exchange_us / 1e3,
                             facts.step_us / 1e3);
}

bool Director::is_dense(const FleetFacts& facts) const {
  return options_.dense_end && facts.progress >= kDenseFrom;
}

ContentFacts Director::content_facts(const FleetFacts& facts) const {
  const bool dense = is_dense(facts);
  ContentFacts content;
  content.workers = facts.workers;
  content.rounds = facts.rounds;
  content.exchange_us = facts.exchange_us;
  content.tau = dense ? 1 : freq_->tau();
  content.follows_link = !dense && freq_->follows_link();
  content.publication = facts.publication;
  content.progress = facts.progress;
  return content;
}

PaceFacts Director::pace_facts(const FleetFacts& facts) {
  boards_.clear();
  const uint32_t wanted = freq_->tau();
  double carried_us = 0, longest_step_us = 0;
  for (const WorkerCost& worker : facts.workers) {
    const double own_us = content_.carried_us(worker.link);
    const uint32_t own_tau =
        freq_->follows_link() ? std::max(wanted, link_tau(1, own_us, worker.own_step_us)) : wanted;
    boards_.push_back({worker.own_step_us, own_us, own_tau});
    carried_us = std::max(carried_us, own_us);
    longest_step_us = std::max(longest_step_us, worker.own_step_us);
  }
  // A round is also as long as one step of who does less.
  const double step_us = round_step_us(boards_);
  const auto waited_us = [&](uint32_t tau) {
    return std::max(0.0, longest_step_us - tau * step_us);
  };
  if (facts.rounds && facts.exchange_us > 0)
    rest_us_ = std::max(0.0, facts.exchange_us - carried_us - waited_us(tau_));
  uint32_t round_tau = wanted;
  while (freq_->follows_link()) {
    const double exchange_us = carried_us + rest_us_ + waited_us(round_tau);
    const uint32_t raised = link_tau(round_tau, exchange_us, step_us);
    if (raised <= round_tau) break;
    round_tau = raised;
  }
  PaceFacts result;
  result.boards = boards_;
  result.members = facts.members;
  result.now_us = facts.now_us;
  result.training_loss = facts.training_loss;
  result.rest_us = rest_us_;
  result.round_tau = round_tau;
  return result;
}

const PaceCandidate& Director::choose_pace(const FleetFacts& facts) {
  const PaceCandidate& before = pace_.now();
  // The dense end is short: nothing can be tried in it.
  const bool holds = others_moved_ || is_dense(facts);
  const PaceCandidate& next = pace_.decide(pace_facts(facts), holds);
  pace_moves_ = &next != &before;
  return next;
}

Directive Director::compose(const FleetFacts& facts) {
  Directive directive;
  directive.reason = freq_->reason();
  directive.tau = freq_->tau();
  if (freq_->follows_link()) {
    follow_link(facts);
    if (link_tau_ > directive.tau) {
      directive.tau = link_tau_;
      directive.reason = link_reason_;
    }
  }
  dense_ = is_dense(facts);
  if (dense_) {
    directive.tau = 1;
    directive.reason = "the end is near: every step";
  }
  const bool pace_moves = std::exchange(pace_moves_, false);
  if (pace_moves && tau_ != 0) directive.tau = tau_;
  directive.steps_cap = std::min(kStepsCapFactor * directive.tau, kStepsCapFactor * kTauMax);
  directive.elastic = facts.elastic;
  const uint32_t tau_before = std::exchange(tau_, directive.tau);
  const bool tau_moves = tau_before != 0 && tau_before != directive.tau;
  const CodecPair codecs = content_.decide(content_facts(facts), tau_moves || pace_moves);
  others_moved_ = tau_moves || codecs != codecs_;
  codecs_changed_ = codecs_changed_ || codecs != codecs_;
  codecs_ = codecs;
  directive.codec_up = static_cast<uint8_t>(codecs.up);
  directive.codec_down = static_cast<uint8_t>(codecs.down);

  const double fall = std::clamp((facts.progress - 0.5) / 0.5, 0.0, 1.0);
  directive.rate = static_cast<float>(options_.rate * (1 - fall * (1 - options_.rate_end)));
  directive.keep = static_cast<float>(options_.keep);

  const double cost_steps = static_cast<double>(facts.held_out_rows_max) * kForwardShareOfStep /
                            static_cast<double>(std::max(options_.batch, 1u));
  const double exchange_steps = facts.step_us > 0 ? facts.exchange_us / facts.step_us : 0;
  const double rounds_between = cost_steps / kEvaluationShareMax / (directive.tau + exchange_steps);
  directive.evaluate = static_cast<double>(rounds_since_evaluation_) >= rounds_between;
  rounds_since_evaluation_ = directive.evaluate ? 1 : rounds_since_evaluation_ + 1;
  return directive;
}

uint32_t Director::tau_of(const WorkerCost& worker, uint32_t present) const {
  if (dense_ || !freq_->follows_link()) return tau_;
  return std::max(
      tau_, link_tau(std::max(present, 1u), content_.carried_us(worker.link), worker.step_us));
}

void Director::save(ByteWriter* out) const {
  out->put(rounds_since_evaluation_);
  freq_->save(out);
  content_.save(out);
  pace_.save(out);
}

Status Director::restore(ByteReader* in) {
  PACELINE_ASSIGN(rounds_since_evaluation_, in->get<uint64_t>());
  PACELINE_TRY(freq_->restore(in));
  PACELINE_TRY(content_.restore(in));
  return pace_.restore(in);
}

}  // namespace paceline
