#include "tests/simulate/ledger.h"

#include <doctest/doctest.h>

#include <cmath>

namespace paceline::test {

void Books::add(std::span<const float> values, Flat* sum) {
  sum->resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) (*sum)[i] += static_cast<double>(values[i]);
}

void Applied::applied(const Member& member, const HeldUpdate& update) {
  std::vector<float> decoded(static_cast<size_t>(layout.element_count()));
  for (const PayloadView& view : update.views) add_payload(layout, view, seed, decoded);
  const bool is_new = updates[member.id].emplace(update.sequence, std::move(decoded)).second;
  CHECK_MESSAGE(is_new, member.name << ": update " << update.sequence << " applied twice");
}

void Applied::roll_back(const Member& member) {
  auto& known = updates[member.id];
  for (auto it = known.upper_bound(member.last_settled); it != known.end(); it = known.erase(it))
    rolled_back[member.id].insert(*it);
}

void Applied::forget(const Member& member) {
  auto& known = updates[member.id];
  known.erase(known.upper_bound(member.last_settled), known.end());
}

Ledger::Ledger(const LedgerPlan& plan) : plan_(plan), chance_(plan.seed, 3) {
  options_ =
      toy_fleet({.workers = kLedgerWorkers, .momentum = plan.momentum, .hidden = kLedgerHidden});
  options_.seed = plan.seed;
  options_.faults = plan.faults;
  options_.unsend = plan.unsend;
  options_.before_replies = plan.before_replies;
  options_.server.recording = plan.recording;
  options_.server.pace = plan.pace;
  options_.server.freq = "fixed:2";
  options_.server.codec_up = plan.codec;
  options_.server.codec_down = CodecId::kQ8;
  options_.server.exchange_deadline_ms = 400;
  options_.server.heartbeat_ms = 200;
  options_.server.min_workers = 1;
  options_.workers[2].step_us = plan.slowest_step_us;
  options_.tamper = [this](Envelope* envelope) {
    auto* exchange = std::get_if<Exchange>(&envelope->message);
    if (exchange != nullptr && refuses(*exchange)) exchange->generation += 1;
  };
  applied_.emplace(options_.server.run.model.layout, options_.server.run.training.seed);
  fleet_ = Fleet::make(options_).value();
  fleet_->server().set_observer(&*applied_);
}

bool Ledger::run(TimeUs duration, const std::function<bool()>& done) {
  return fleet_->run(fleet_->now() + duration, [&] {
    for (size_t i = 0; i < kLedgerWorkers; ++i)
      if (fleet_->runs(i)) fleet_->worker(i).set_observer(&books_[i]);
    return done();
  });
}

void Ledger::settle() {
  plan_.refused = 0;
  fleet_->network().set_faults({.delay_us = 500});
  fleet_->server().finish(fleet_->now());
  REQUIRE(run(4 * kMinute, [&] {
    for (size_t i = 0; i < kLedgerWorkers; ++i)
      if (!fleet_->runs(i) || fleet_->worker(i).activity() != Activity::kStopped) return false;
    return true;
  }));
}

double Ledger::imbalance(size_t worker) {
  const std::span<const float> residual = fleet_->worker(worker).residual();
  const Books& books = books_[worker];
  Flat sum = books.lost_sum;
  Books::add(residual, &sum);
  const auto id = static_cast<uint32_t>(worker);
  for (const auto& [sequence, update] : applied_->updates[id])
    if (sequence >= books.first_sequence) Books::add(update, &sum);
  // Gone with the server's state, unless the worker had no answer yet and took it back.
  for (const auto& [sequence, update] : applied_->rolled_back[id])
    if (books.taken.count(sequence) == 0) Books::add(update, &sum);
  double worst = 0, largest = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    const double produced = books.produced_sum.empty() ? 0.0 : books.produced_sum[i];
    worst = std::max(worst, std::fabs(sum[i] - produced));
    largest = std::max(largest, std::fabs(produced));
  }
  return worst / (largest + 1e-7);
}

void Ledger::check_conserved() {
  for (size_t i = 0; i < kLedgerWorkers; ++i) {
    const WorkerStats& stats = fleet_->worker(i).stats();
    CHECK_MESSAGE(imbalance(i) <= 1e-5,
                  plan_.pace << ", " << codec_info(plan_.codec).name << ", worker " << i
                             << ": off by " << imbalance(i) << ", refused " << stats.refused_late
                             << ", missed " << stats.rounds_missed);
  }
}

bool Ledger::refuses(const Exchange& exchange) {
  if (refuse_next_ > 0 && exchange.sequence > refused_last_) {
    --refuse_next_;
    refused_last_ = exchange.sequence;
    return true;
  }
  return chance_.unit() < plan_.refused;
}

LoopbackFaults bad_network() {
  LoopbackFaults faults;
  faults.delay_us = 2000;
  faults.jitter_us = 8000;
  faults.request_loss = 0.2;
  faults.reply_loss = 0.2;
  faults.duplication = 0.2;
  return faults;
}

}  // namespace paceline::test
