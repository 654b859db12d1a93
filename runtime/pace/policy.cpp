#include "runtime/pace/policy.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/local_steps.h"

namespace paceline {

namespace {

// What updates that wait for nobody lose: for each version that they are behind, this share of
// their worth at tau = 1, less where a version holds more steps (docs/paces.md).
constexpr double kStalenessPrice = 1.0;

// Another rule has to be so much cheaper, in so many rounds running, so many rounds after the last
// change.
constexpr double kClearlyCheaper = 0.75;
constexpr double kCheaperBack = 0.95;  // of the rule that a run begins with
constexpr uint32_t kBetterRounds = 3;
constexpr uint32_t kRoundsBetweenChanges = 5;

// Rounds after a change in which some last losses are still of the rule before.
constexpr uint32_t kSettlingRounds = 10;
// Then a trial takes so many rounds, and ends at once where the loss has grown by so much.
constexpr size_t kWindowRounds = 20;
constexpr double kLossBursts = 1.5;
// The loss falls ever more slowly; a rule fails where it falls by less than this share as fast.
constexpr double kFallShareMin = 0.5;
constexpr uint32_t kFirstBanRounds = 100;
constexpr uint32_t kBanRoundsMax = 100'000;

double median_step_us(std::span<const PaceBoard> boards) {
  std::vector<double> steps;
  for (const PaceBoard& board : boards) steps.push_back(board.step_us);
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

double price_of_rounds(const PaceFacts& facts) {
  const double median = median_step_us(facts.boards);
  double computing_us = round_step_us(facts.boards) * facts.round_tau, exchange_us = 0;
  for (const PaceBoard& board : facts.boards) {
    // Who does less does one step at least.
    if (board.step_us > kSlowFactor * median) computing_us = std::max(computing_us, board.step_us);
    exchange_us = std::max(exchange_us, board.exchange_us);
  }
  double progress = 0;
  for (const PaceBoard& board : facts.boards) {
    const double steps = std::min(computing_us / std::max(board.step_us, 1.0),
                                  1.0 * kStepsCapFactor * facts.round_tau);
    progress += progress_of_steps(std::max(steps, 1.0)) / static_cast<double>(facts.boards.size());
  }
  return (computing_us + exchange_us + facts.rest_us) / progress;
}

double price_of_groups(const PaceFacts& facts, uint32_t group) {
  double progress_per_us = 0, tau = 0;
  const auto boards = static_cast<double>(facts.boards.size());
  for (const PaceBoard& board : facts.boards) {
    tau += board.own_tau / boards;
    progress_per_us += progress_of_steps(board.own_tau) /
                       std::max(board.own_tau * board.step_us + board.exchange_us, 1.0) / boards;
  }
  const double staleness = static_cast<double>(facts.members) / group - 1;
  return (1 + kStalenessPrice * staleness / tau) / progress_per_us;
}

}  // namespace

double round_step_us(std::span<const PaceBoard> boards) {
  if (boards.empty()) return 0;
  const double median = median_step_us(boards);
  double slowest = 0;
  for (const PaceBoard& board : boards)
    slowest = std::max(slowest, board.step_us > kSlowFactor * median ? median : board.step_us);
  return slowest;
}

double price_pace(const PaceFacts& facts, const PaceCandidate& candidate) {
  PACELINE_CHECK(!facts.boards.empty());
  return candidate.group == 0 ? price_of_rounds(facts) : price_of_groups(facts, candidate.group);
}

void PacePolicy::observe(const PaceFacts& facts) {
  if (rounds_since_change_ <= kSettlingRounds) return;
  if (!std::isfinite(facts.training_loss) || !(facts.training_loss > 0)) return;
  losses_.push_back({facts.now_us, facts.training_loss});
  if (losses_.size() > kWindowRounds) losses_.erase(losses_.begin());
}

// Least squares over time: by how much of itself the loss falls in a second. 0: too little is
// known.
double PacePolicy::fall() const {
  if (losses_.size() < kWindowRounds) return 0;
  const auto n = static_cast<double>(losses_.size());
  double mean_x = 0, mean_y = 0;
  for (const Point& point : losses_) {
    mean_x += (point.at_us - losses_.front().at_us) / 1e6 / n;
    mean_y += point.loss / n;
  }
  double xx = 0, xy = 0;
  for (const Point& point : losses_) {
    const double dx = (point.at_us - losses_.front().at_us) / 1e6 - mean_x;
    xx += dx * dx;
    xy += dx * (point.loss - mean_y);
  }
  return xx > 0 ? -xy / xx / mean_y : 0;
}

void PacePolicy::change(size_t candidate, const std::string& reason) {
  now_ = candidate;
  reason_ = reason;
  losses_.clear();
  rounds_since_change_ = better_rounds_ = 0;
}

void PacePolicy::judge_trial() {
  const char* name = now().name;
  const char* other = kPaceCandidates[before_].name;
  std::string outcome;
  bool fails = true;
  if (loss_before_ > 0 && !losses_.empty() && losses_.back().loss > kLossBursts * loss_before_) {
    outcome = format_text("under %s the loss grew from %.3g to %.3g", name, loss_before_,
                          losses_.back().loss);
  } else if (losses_.size() == kWindowRounds) {
    const double share = fall_before_ > 0 ? fall() / fall_before_ : 0;
    fails = fall_before_ > 0 ? share < kFallShareMin : !(fall() > 0);
    outcome = format_text("the loss falls %.2g %% a second under %s, under %s it fell %.2g %%; ",
                          100 * fall(), name, other, 100 * fall_before_) +
              format_text("%.2g times was predicted", 1 / predicted_share_);
  } else {
    return;
  }
  trial_ = false;
  if (!fails) {
    reason_ = outcome;
    return;
  }
  uint32_t& ban = last_ban_[now_];
  ban = std::min(std::max(2 * ban, kFirstBanRounds), kBanRoundsMax);
  banned_rounds_[now_] = ban;
  change(before_, outcome);
}

void PacePolicy::consider(const PaceFacts& facts) {
  const double present = price_pace(facts, now());
  size_t best = now_;
  double share = 1;
  for (size_t i = 0; i < kPaceCandidateCount; ++i) {
    const PaceCandidate& candidate = kPaceCandidates[i];
    // A group of all is a round without what makes rounds cheap.
    if (banned_rounds_[i] > 0 || candidate.group >= facts.members) continue;
    const double cheaper = price_pace(facts, candidate) / present;
    if (cheaper < share) best = i, share = cheaper;
  }
  const bool clearly = best != now_ && share < (best == 0 ? kCheaperBack : kClearlyCheaper);
  better_rounds_ = !clearly ? 0 : best == better_ ? better_rounds_ + 1 : 1;
  better_ = best;
  if (better_rounds_ < kBetterRounds || rounds_since_change_ < kRoundsBetweenChanges) return;
  before_ = now_;
  fall_before_ = fall();
  loss_before_ = losses_.empty() ? 0 : losses_.back().loss;
  predicted_share_ = share;
  trial_ = true;
  change(best, format_text("it should take %.2g of the time of %s for the same progress", share,
                           kPaceCandidates[before_].name));
}

const PaceCandidate& PacePolicy::decide(const PaceFacts& facts, bool others_move) {
  ++rounds_since_change_;
  for (uint32_t& rounds : banned_rounds_)
    if (rounds > 0) --rounds;
  observe(facts);
  if (others_move) return now();
  if (trial_) {
    judge_trial();
  } else if (!facts.boards.empty() && facts.boards.size() == facts.members) {
    consider(facts);
  }
  return now();
}

void PacePolicy::save(ByteWriter* out) const {
  out->put(static_cast<uint8_t>(now_));
  out->put(static_cast<uint8_t>(before_));
  out->put(static_cast<uint8_t>(trial_));
  out->put(fall_before_);
  out->put(loss_before_);
  out->put(predicted_share_);
  for (size_t i = 0; i < kPaceCandidateCount; ++i) {
    out->put(banned_rounds_[i]);
    out->put(last_ban_[i]);
  }
}

// Losses are not kept: their times are of a clock that is gone.
Status PacePolicy::restore(ByteReader* in) {
  PACELINE_ASSIGN(const uint8_t now, in->get<uint8_t>());
  PACELINE_ASSIGN(const uint8_t before, in->get<uint8_t>());
  PACELINE_ASSIGN(const uint8_t trial, in->get<uint8_t>());
  PACELINE_ASSIGN(const double fall_before, in->get<double>());
  PACELINE_ASSIGN(const double loss_before, in->get<double>());
  PACELINE_ASSIGN(const double predicted_share, in->get<double>());
  if (now >= kPaceCandidateCount || before >= kPaceCandidateCount || trial > 1 ||
      !(predicted_share > 0))
    return fail(Code::kCorrupt, "how the pace is chosen");
  for (size_t i = 0; i < kPaceCandidateCount; ++i) {
    PACELINE_ASSIGN(banned_rounds_[i], in->get<uint32_t>());
    PACELINE_ASSIGN(last_ban_[i], in->get<uint32_t>());
    if (banned_rounds_[i] > kBanRoundsMax || last_ban_[i] > kBanRoundsMax)
      return fail(Code::kCorrupt, "how the pace is chosen");
  }
  change(now, "as before the restart");
  before_ = before;
  trial_ = trial == 1;
  fall_before_ = fall_before;
  loss_before_ = loss_before;
  predicted_share_ = predicted_share;
  return {};
}

}  // namespace paceline
