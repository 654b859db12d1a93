#include "runtime/worker/live_trainer.h"

#include <algorithm>
#include <vector>

#include "runtime/worker/live_data.h"
#include "runtime/worker/local_trainer.h"

namespace paceline {

namespace {

class LiveTrainer final : public LocalTrainer {
 public:
  LiveTrainer(std::shared_ptr<LocalData> data, std::unique_ptr<Trainer> trainer,
              const DataSchema& schema, Random draws, uint64_t noise)
      : data_(std::move(data)),
        trainer_(std::move(trainer)),
        number_(schema.label_is_number()),
        forecasts_(schema.forecasts()),
        width_(schema.columns.size() * schema.windows.rows),
        label_scale_(schema.label_scale),
        label_offset_(schema.label_offset),
        draws_(draws),
        noise_(noise) {
    features_.resize(trainer_->batch_max() * width_);
    labels_.resize(trainer_->batch_max());
    targets_.resize(trainer_->batch_max());
  }

  bool ready() const override { return ring().training().size() >= kTrainedRowsMin; }

  Result<float> gradient(std::span<const float> parameters, uint32_t rows,
                         std::span<float> gradient) override {
    const std::deque<RingSample>& training = ring().training();
    const size_t count = std::min<size_t>(rows, trainer_->batch_max());
    trainer_->seed_noise(noise_ + step_++);
    for (size_t i = 0; i < count; ++i)
      put(i, training[static_cast<size_t>(draws_.below(training.size()))]);
    return trainer_->gradient(parameters, features(count), targets(count), gradient);
  }

  Result<EvaluationCounts> evaluate(std::span<const float> parameters) override {
    EvaluationCounts counts;
    const std::deque<RingSample>& held_out = ring().held_out();
    const size_t evaluated = std::min(held_out.size(), kEvaluatedRowsMax);
    double last_squares = 0;
    for (size_t next = 0; next < evaluated;) {
      size_t count = 0;
      for (; count < trainer_->batch_max() && next < evaluated; ++count, ++next) {
        const RingSample& sample = held_out[next * held_out.size() / evaluated];
        put(count, sample);
        const auto change =
            static_cast<double>(sample.number) - static_cast<double>(sample.last_number);
        last_squares += change * change;
      }
      PACELINE_TRY(trainer_->evaluate(parameters, features(count), targets(count), &counts));
    }
    if (forecasts_) data_->forecast = forecast_score(counts, label_scale_, last_squares);
    return counts;
  }

 private:
  const RowRing& ring() const { return *data_->live->ring(); }
  void put(size_t place, const RingSample& sample) {
    ring().lay_out(sample, std::span(features_).subspan(place * width_, width_));
    labels_[place] = sample.label;
    targets_[place] = sample.number * label_scale_ + label_offset_;
  }
  std::span<const float> features(size_t count) const {
    return std::span(features_).first(count * width_);
  }
  Targets targets(size_t count) const {
    if (number_) return std::span(targets_).first(count);
    return std::span(labels_).first(count);
  }

  std::shared_ptr<LocalData> data_;
  std::unique_ptr<Trainer> trainer_;
  bool number_, forecasts_;
  size_t width_;
  float label_scale_, label_offset_;
  Random draws_;
  uint64_t noise_;
  uint64_t step_ = 0;
  std::vector<float> features_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
};

}  // namespace

std::unique_ptr<LocalTrainer> make_live_trainer(std::shared_ptr<LocalData> data,
                                                std::unique_ptr<Trainer> trainer,
                                                const DataSchema& schema, Random draws,
                                                uint64_t noise) {
  return std::make_unique<LiveTrainer>(std::move(data), std::move(trainer), schema, draws, noise);
}

}  // namespace paceline
