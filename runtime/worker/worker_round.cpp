// Training between two cuts, and the books of what was produced, sent, taken back and lost.
#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/privacy/mechanism.h"
#include "runtime/worker/worker_core.h"

namespace paceline {

namespace {

constexpr uint32_t kMicroRowsMin = 16;    // a micro-batch is not smaller
constexpr uint32_t kMicroBatchesMax = 8;  // of one mini-batch

double norm(std::span<const float> values) {
  double squares = 0;
  for (float value : values) squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

double norm_of_sum(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double sum = static_cast<double>(a[i]) + static_cast<double>(b[i]);
    squares += sum * sum;
  }
  return std::sqrt(squares);
}

void remember(std::deque<double>* window, double value) {
  window->push_back(value);
  if (window->size() > kNormWindow) window->pop_front();
}

double median(std::deque<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

uint32_t WorkerCore::epoch_steps() const {
  const uint64_t batch = std::max(run_.spec.training.batch, 1u);
  return static_cast<uint32_t>(
      std::clamp<uint64_t>((options_.training_rows + batch - 1) / batch, 1, kTauMax * 4));
}
uint32_t WorkerCore::steps_minimum() const { return std::clamp(directive_.tau, 1u, epoch_steps()); }
uint32_t WorkerCore::steps_cap() const {
  if (!directive_.elastic) return steps_minimum();
  return std::max(steps_minimum(), std::min(directive_.steps_cap, epoch_steps()));
}

uint32_t WorkerCore::batch_rows() const {
  return static_cast<uint32_t>(
      std::min<uint64_t>(run_.spec.training.batch, std::max<uint64_t>(options_.training_rows, 1)));
}

uint32_t WorkerCore::micro_batches() const {
  // What batch normalisation makes of a row depends on the whole batch.
  if (seen_.used()) return 1;
  return accumulating() ? std::clamp(batch_rows() / kMicroRowsMin, 1u, kMicroBatchesMax) : 1;
}

uint32_t WorkerCore::next_rows() const {
  if (!run_.trainer) return 0;
  const uint32_t batch = batch_rows();
  const uint32_t parts = micro_batches();
  // The first batch % parts micro-batches have one row more.
  const uint32_t index = period_units_ % parts;
  return batch / parts + (index < batch % parts ? 1 : 0);
}

uint32_t WorkerCore::steps_done() const { return period_units_ / micro_batches(); }

void WorkerCore::begin_period(TimeUs now) {
  if (goodbye_sent_ || directive_.finish) return enter(Phase::kStopped, now);
  // One is kept for the goodbye: its number counts like any other's.
  if (!leaving_ && privacy_is_spent(next_sequence_ + 1)) {
    log_info("leaving: another update would pass epsilon_max %g, %.4g is spent",
             run_.spec.privacy->epsilon_max, spent_epsilon());
    leaving_ = true;
  }
  // Without a new publication, as asynchronous paces grant, the worker goes on from where it is.
  if (local_publication_ != publication_) local_ = published_;
  local_publication_ = publication_;
  base_ = local_;
  period_units_ = 0;
  period_loss_ = 0;
  seen_.clear();
  ready_sent_ = false;
  cut_now_ = false;
  not_finite_ = false;
  if (accumulating()) std::ranges::fill(scratch_, 0.0f);
  if (leaving_) return cut(now);
  // What a private run's boards evaluate would leave without noise.
  evaluate_next_ = directive_.evaluate && !run_.spec.privacy && options_.held_out_rows > 0 &&
                   evaluated_publication_ != publication_;
  enter(Phase::kTrain, now);
}

void WorkerCore::evaluate_unit(TimeUs now) {
  evaluate_next_ = false;
  evaluated_publication_ = publication_;
  Result<EvaluationCounts> counts = run_.trainer->evaluate(published_);
  if (!counts) return fail_with(std::move(counts).error());
  stats_.evaluated_us += now - unit_started_;
  unit_started_ = now;
  if (counts->rows == 0) return;  // none are there yet
  evaluations_.push_back({publication_, counts->rows, counts->correct, counts->loss_fixed16});
  if (evaluations_.size() > kEvaluationsPerExchangeMax) evaluations_.erase(evaluations_.begin());
}

void WorkerCore::train_unit(TimeUs now) {
  const uint32_t rows = next_rows();
  Result<float> loss = run_.trainer->gradient(local_, rows, gradient_);
  if (!loss) return fail_with(std::move(loss).error());
  seen_.take_batch(rows, gradient_);
  if (!std::isfinite(*loss)) not_finite_ = true;
  period_loss_ += static_cast<double>(*loss);
  last_loss_ = *loss;
  if (accumulating()) {
    for (size_t i = 0; i < scratch_.size(); ++i) scratch_[i] += gradient_[i];
  } else {
    pull_back();
    optimizer_->step(gradient_, run_.trainer->touched(), directive_.rate, local_);
  }
  ++period_units_;
  if (period_units_ % micro_batches() == 0) {
    ++clock_;
    ++stats_.steps;
  }
  const double took = static_cast<double>(now - unit_started_) * micro_batches();
  step_us_ = step_us_ == 0 ? took : 0.8 * step_us_ + 0.2 * took;
  unit_started_ = now;
  after_unit(now);
}

void WorkerCore::pull_back() {
  const auto share = static_cast<float>(run_.spec.training.proximal);
  if (share == 0) return;
  for (size_t i = 0; i < gradient_.size(); ++i) gradient_[i] += share * (local_[i] - published_[i]);
}

void WorkerCore::after_unit(TimeUs now) {
  if (phase_ != Phase::kTrain) return;
  const bool has_minimum = steps_done() >= steps_minimum();
  if (not_finite_ || (has_minimum && (cut_now_ || !directive_.elastic)) ||
      (cut_now_ && period_units_ > 0)) {
    cut(now);
    return;
  }
  if (has_minimum && !ready_sent_) {
    ready_sent_ = true;
    waiting_for_ = "the slowest worker of the round";
    send(Lane::kReady, Ready{options_.incarnation, round_, steps_done()}, exchange_timeout_us_);
  }
}

void WorkerCore::cut(TimeUs now) {
  if (accumulating() && period_units_ > 0) {
    const float count = static_cast<float>(period_units_);
    for (float& value : scratch_) value /= count;
    optimizer_->step(scratch_, directive_.rate, local_);
  }
  pending_ = PendingUpdate();
  PendingUpdate& pending = *pending_;
  pending.sequence = next_sequence_++;
  pending.base_publication = publication_;
  pending.base_checksum = published_checksum_;
  pending.generation = generation_;
  pending.round = round_;
  pending.steps = std::max(steps_done(), 1u);
  pending.training_loss = period_units_ > 0 && !run_.spec.privacy
                              ? static_cast<float>(period_loss_ / period_units_)
                              : 0.0f;
  pending.evaluations = std::exchange(evaluations_, {});
  pending.waited_us = stats_.waited_us - waited_before_;
  waited_before_ = stats_.waited_us;

  for (size_t i = 0; i < scratch_.size(); ++i) scratch_[i] = local_[i] - base_[i];
  if (run_.spec.privacy) make_private(scratch_);
  transfer_began_ = now;
  const CodecId codec =
      leaving_ ? CodecId::kQ8 : codec_by_wire_id(directive_.codec_up).value_or(CodecId::kQ8);
  encode_pending(codec, scratch_);
  base_ = local_;
  period_units_ = 0;
  seen_.clear();
  enter(Phase::kPush, now);
  push_next();
}

// An update's number is at least how many there were: no life of this worker reuses one.
double WorkerCore::spent_epsilon() const {
  return run_.spec.privacy ? paceline::spent_epsilon(*run_.spec.privacy, next_sequence_ - 1) : 0;
}

bool WorkerCore::privacy_is_spent(uint64_t updates) const {
  const std::optional<PrivacySpec>& privacy = run_.spec.privacy;
  return privacy && privacy->epsilon_max > 0 &&
         paceline::spent_epsilon(*privacy, updates) > privacy->epsilon_max;
}

// Before the residual comes to it, which holds what was made private before.
void WorkerCore::make_private(std::span<float> update) {
  if (not_finite_) return;
  if (period_units_ == 0 || privacy_is_spent(pending_->sequence)) {
    std::ranges::fill(update, 0.0f);
    return;
  }
  if (!paceline::make_private(*run_.spec.privacy, trained_, options_.noise_bytes, update).ok())
    not_finite_ = true;
}

void WorkerCore::encode_pending(CodecId codec, std::span<float> update) {
  PendingUpdate& pending = *pending_;
  measured_ = {.fetch_us = measured_.fetch_us};
  const double coded_norm = norm_of_sum(update, residual_);
  const Status status = not_finite_
                            ? Status(fail(Code::kInvalidArgument, "the loss is not finite"))
                            : encode_update(run_.spec.model.layout, codec, {seed_, publication_},
                                            update, residual_, &pending.update);
  pending.has_update = status.ok();
  if (status.ok()) {
    pending.statistics = seen_.statistics();
    pending.update.checksum =
        crc32c(std::as_bytes(std::span(pending.statistics.values)), pending.update.checksum);
    if (observer_ != nullptr) observer_->produced(update);
    const double update_norm = norm(update);
    remember(&update_norms_, update_norm / pending.steps);
    measured_.update_norm = static_cast<float>(update_norm);
    measured_.coded_norm = static_cast<float>(coded_norm);
    measured_.residual_norm = static_cast<float>(norm(residual_));
    return;
  }
  ++stats_.not_finite;
  log_warning("this round's update is not sent: %s", status.message().c_str());
  local_ = base_;
  optimizer_->drop();
  const float bound = 0x1p118f;
  if (std::ranges::any_of(residual_, [bound](float e) { return !(std::fabs(e) < bound); }))
    drop_residual("the residual is not finite");
}

void WorkerCore::settle_applied() {
  remember(&residual_norms_, norm(residual_) / std::max(pending_->steps, 1u));
  last_settled_ = pending_->sequence;
  pending_.reset();
}

void WorkerCore::add_pending_to(std::span<float> flat) const {
  const ParameterLayout& layout = run_.spec.model.layout;
  for (uint32_t i = 0; i < pending_->update.chunks.size(); ++i) {
    const Result<PayloadView> view = verify_payload(layout, i, pending_->update.chunks[i]);
    PACELINE_CHECK(view.has_value());
    add_payload(layout, *view, seed_, flat);
  }
}

// Where no newer model is fetched, the worker goes on from its own weights: what it took back was
// computed, and from the published ones it would compute the same again and send it twice.
void WorkerCore::unsend_pending() {
  if (!pending_) return;
  if (pending_->has_update && options_.unsend) {
    add_pending_to(residual_);
    if (observer_ != nullptr) observer_->taken_back(pending_->sequence);
    cap_residual(std::max(pending_->steps, 1u));
  }
  evaluations_ = std::move(pending_->evaluations);
  last_settled_ = pending_->sequence;
  pending_.reset();
}

void WorkerCore::drop_pending(const char* why) {
  if (pending_->has_update) {
    std::ranges::fill(scratch_, 0.0f);
    add_pending_to(scratch_);
    lose(scratch_);
  }
  last_settled_ = pending_->sequence;
  pending_.reset();
  local_publication_ = 0;
  drop_residual(why);
}

void WorkerCore::absorb_period() {
  if (period_units_ == 0 || publication_ == 0) return;
  local_publication_ = 0;
  const double steps = std::max(steps_done(), 1u);
  if (accumulating()) {
    const float count = static_cast<float>(period_units_);
    for (float& value : scratch_) value /= count;
    optimizer_->step(scratch_, directive_.rate, local_);
  }
  for (size_t i = 0; i < scratch_.size(); ++i) scratch_[i] = local_[i] - base_[i];
  period_units_ = 0;
  seen_.clear();
  const bool finite = !not_finite_ && std::ranges::all_of(scratch_, [](float value) {
    return std::fabs(value) < 0x1p118f;
  });
  if (!finite) return optimizer_->drop();
  if (observer_ != nullptr) observer_->produced(scratch_);
  // Without noise it may not be sent, and its noise would cost as much as an update's.
  if (run_.spec.privacy) return lose(scratch_);
  for (size_t i = 0; i < scratch_.size(); ++i) residual_[i] += scratch_[i];
  flush_small(residual_);
  cap_residual(steps);
}

uint32_t WorkerCore::transfer_us(TimeUs now) const {
  if (transfer_began_ == kNever) return 0;
  return static_cast<uint32_t>(std::clamp<TimeUs>(now - transfer_began_, 1, UINT32_MAX));
}

void WorkerCore::cap_residual(double step_count) {
  const double bound =
      step_count * std::max(2 * median(update_norms_), 2 * median(residual_norms_));
  const double size = norm(residual_);
  if (bound <= 0 || size <= bound) return;
  const float factor = static_cast<float>(bound / size);
  local_publication_ = 0;  // its own weights hold more than is left to send
  scratch_ = residual_;
  for (float& value : residual_) value *= factor;
  flush_small(residual_);
  for (size_t i = 0; i < scratch_.size(); ++i) scratch_[i] -= residual_[i];
  lose(scratch_);
}

void WorkerCore::drop_residual(const char* why) {
  if (std::ranges::all_of(residual_, [](float e) { return e == 0; })) return;
  log_warning("what was not sent yet is dropped: %s", why);
  lose(residual_);
  std::ranges::fill(residual_, 0.0f);
}

void WorkerCore::lose(std::span<const float> values) {
  ++stats_.lost_count;
  stats_.lost_gradient_total += norm(values);
  if (observer_ != nullptr) observer_->lost(values);
}

}  // namespace paceline
