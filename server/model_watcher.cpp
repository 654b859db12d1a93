#include "server/model_watcher.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/log.h"

namespace paceline {

Result<Evaluated> evaluate_model(Trainer& trainer, const Dataset& dataset,
                                 std::span<const uint32_t> rows,
                                 std::span<const float> parameters) {
  const size_t batch = trainer.batch_max();
  std::vector<float> features(batch * dataset.feature_count());
  std::vector<int32_t> labels(batch);
  std::vector<float> numbers(batch);
  EvaluationCounts counts;
  for (size_t begin = 0; begin < rows.size(); begin += batch) {
    const size_t count = std::min(batch, rows.size() - begin);
    const std::span<float> x = std::span(features).first(count * dataset.feature_count());
    const std::span<int32_t> y = std::span(labels).first(count);
    dataset.gather(rows.subspan(begin, count), x, y);
    if (dataset.numbers().empty()) {
      PACELINE_TRY(trainer.evaluate(parameters, x, y, &counts));
      continue;
    }
    const std::span<float> targets = std::span(numbers).first(count);
    dataset.gather_targets(rows.subspan(begin, count), targets);
    PACELINE_TRY(trainer.evaluate(parameters, x, targets, &counts));
  }
  if (counts.rows == 0) return fail(Code::kInvalidArgument, "there are no rows to evaluate on");
  const double n = static_cast<double>(counts.rows);
  return Evaluated{static_cast<double>(counts.correct) / n,
                   static_cast<double>(counts.loss_fixed16) * 0x1p-16 / n};
}

ModelWatcher::ModelWatcher(std::unique_ptr<Trainer> trainer, const Dataset& dataset,
                           std::vector<uint32_t> rows)
    : trainer_(std::move(trainer)), dataset_(dataset), rows_(std::move(rows)) {
  thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

ModelWatcher::~ModelWatcher() {
  thread_.request_stop();
  thread_.join();
}

bool ModelWatcher::busy() const {
  const std::lock_guard lock(mutex_);
  return next_.has_value();
}

void ModelWatcher::offer(std::span<const float> parameters, CurvePoint point) {
  const std::lock_guard lock(mutex_);
  PACELINE_CHECK(!next_);
  parameters_.assign(parameters.begin(), parameters.end());
  next_ = point;
  offered_.notify_all();
}

std::vector<CurvePoint> ModelWatcher::curve() const {
  const std::lock_guard lock(mutex_);
  return curve_;
}

void ModelWatcher::run(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (offered_.wait(lock, stop, [this] { return next_.has_value(); })) {
    lock.unlock();
    const Result<Evaluated> result = evaluate_model(*trainer_, dataset_, rows_, parameters_);
    lock.lock();
    if (result) {
      next_->accuracy = result->accuracy;
      next_->loss = result->loss;
      curve_.push_back(*next_);
    } else {
      log_warning("the control set can't be evaluated: %s", result.error().message().c_str());
    }
    next_.reset();
  }
}

}  // namespace paceline
