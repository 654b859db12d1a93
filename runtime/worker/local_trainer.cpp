#include "runtime/worker/local_trainer.h"

#include <algorithm>

#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/worker/live_data.h"
#include "runtime/worker/live_trainer.h"

namespace paceline {

namespace {

constexpr size_t kEvaluationBatch = 64;
constexpr int kEpochDrawsLog2 = 33;  // random numbers that one epoch's order may take

class DatasetTrainer final : public LocalTrainer {
 public:
  // `noise` is what dropout draws from: of this run and this board.
  DatasetTrainer(std::shared_ptr<LocalData> data, std::unique_ptr<Trainer> trainer, Random order,
                 uint64_t noise)
      : data_(std::move(data)), trainer_(std::move(trainer)), order_(order), noise_(noise) {
    const size_t batch = trainer_->batch_max();
    batch_rows_.resize(batch);
    features_.resize(batch * data_->dataset.feature_count());
    labels_.resize(batch);
    targets_.resize(batch);
    shuffle();
    const std::vector<uint32_t>& held_out = data_->split.held_out;
    const size_t evaluated = std::min(held_out.size(), kEvaluatedRowsMax);
    for (size_t i = 0; i < evaluated; ++i)
      evaluated_.push_back(held_out[i * held_out.size() / evaluated]);
  }

  Result<float> gradient(std::span<const float> parameters, uint32_t rows,
                         std::span<float> gradient) override {
    const size_t count = std::min<size_t>(rows, batch_rows_.size());
    // By the place in the data, which outlives a restart.
    trainer_->seed_noise(hash64(noise_ + epoch_) + next_);
    for (size_t i = 0; i < count; ++i) {
      if (next_ == rows_.size()) {
        ++epoch_;
        shuffle();
        next_ = 0;
      }
      batch_rows_[i] = rows_[next_++];
    }
    gather(std::span(batch_rows_).first(count));
    return trainer_->gradient(parameters, features(count), targets(count), gradient);
  }

  std::span<const ElementRange> touched() const override { return trainer_->touched(); }

  Result<EvaluationCounts> evaluate(std::span<const float> parameters) override {
    EvaluationCounts counts;
    for (size_t begin = 0; begin < evaluated_.size(); begin += batch_rows_.size()) {
      const size_t count = std::min(batch_rows_.size(), evaluated_.size() - begin);
      gather(std::span(evaluated_).subspan(begin, count));
      PACELINE_TRY(trainer_->evaluate(parameters, features(count), targets(count), &counts));
    }
    if (data_->dataset.windows().horizon > 0) {
      if (last_squares_ < 0) last_squares_ = squares_of_last();
      data_->forecast = forecast_score(counts, data_->dataset.number_scale(), last_squares_);
    }
    return counts;
  }

  RowCursor cursor() const override { return {epoch_, next_}; }
  void seek(RowCursor cursor) override {
    epoch_ = cursor.epoch;
    next_ = cursor.row <= rows_.size() ? static_cast<size_t>(cursor.row) : 0;
    shuffle();
  }

 private:
  // The order of an epoch follows from its number alone.
  void shuffle() {
    rows_ = data_->split.training;
    order_.seek(epoch_ << kEpochDrawsLog2);
    order_.shuffle(std::span(rows_));
  }
  void gather(std::span<const uint32_t> rows) {
    data_->dataset.gather(rows, std::span(features_).first(rows.size() * width()),
                          std::span(labels_).first(rows.size()));
    if (has_numbers()) data_->dataset.gather_targets(rows, std::span(targets_).first(rows.size()));
  }
  // How far the evaluated windows' labels are from what stood in their last rows.
  double squares_of_last() const {
    std::vector<float> wanted(evaluated_.size()), last(evaluated_.size());
    data_->dataset.gather_targets(evaluated_, wanted);
    data_->dataset.gather_last(evaluated_, last);
    double squares = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double change = static_cast<double>(wanted[i]) - static_cast<double>(last[i]);
      squares += change * change;
    }
    const auto scale = static_cast<double>(data_->dataset.number_scale());
    return squares / (scale * scale);
  }
  size_t width() const { return data_->dataset.feature_count(); }
  std::span<const float> features(size_t count) const {
    return std::span(features_).first(count * width());
  }
  bool has_numbers() const { return !data_->dataset.numbers().empty(); }
  Targets targets(size_t count) const {
    if (has_numbers()) return std::span(targets_).first(count);
    return std::span(labels_).first(count);
  }

  std::shared_ptr<LocalData> data_;
  std::unique_ptr<Trainer> trainer_;
  Random order_;
  uint64_t noise_ = 0;
  uint64_t epoch_ = 0;
  std::vector<uint32_t> rows_;  // of this epoch, shuffled
  size_t next_ = 0;
  std::vector<uint32_t> evaluated_;
  double last_squares_ = -1;  // once it was asked for
  std::vector<uint32_t> batch_rows_;
  std::vector<float> features_;
  std::vector<int32_t> labels_;
  std::vector<float> targets_;
};

}  // namespace

RowCounts rows_of(const LocalData& data) {
  if (data.live && data.live->ring() == nullptr) return {};
  // What the ring holds at most, however little came yet: a weight and a bound that stay true.
  if (data.live)
    return {data.live->ring()->training_max(),
            std::min(data.live->ring()->held_out_max(), kEvaluatedRowsMax),
            data.live->ring()->feature_count(), data.live->ring()->class_count()};
  return {data.split.training.size(), std::min(data.split.held_out.size(), kEvaluatedRowsMax),
          static_cast<uint32_t>(data.dataset.row_count() > 0 ? data.dataset.feature_count() : 0),
          data.dataset.class_count()};
}

LocalRunFactory make_local_run_factory(std::shared_ptr<LocalData> data, std::string name,
                                       std::string backend) {
  return [data = std::move(data), name = std::move(name),
          backend = std::move(backend)](const std::string& text) -> Result<LocalRun> {
    LocalRun run;
    PACELINE_ASSIGN(run.spec, parse_run(text));
    PACELINE_ASSIGN(const DataSchema schema, parse_data_schema(text));
    const ModelSpec& model = run.spec.model;
    PACELINE_TRY(schema.check_model(model.input_features(), model.class_count, model.output_count,
                                    model.sparse_entries()));
    PACELINE_TRY(apply_schema(schema, data.get()));
    if (schema.reads_rows()) run.rows = rows_of(*data);
    const uint64_t stream = crc32c(std::as_bytes(std::span(name)));
    const uint64_t seed = run.spec.training.seed;
    const Random order(seed, stream);
    const uint64_t noise = hash64(hash64(seed) + stream);
    const size_t rows =
        data->live ? data->live->ring()->training_max() : data->split.training.size();
    const size_t batch =
        std::max<size_t>(std::min<size_t>(run.spec.training.batch, rows), kEvaluationBatch);
    const Dataset& dataset = data->dataset;
    if (!data->live && dataset.feature_count() != model.input_features())
      return fail(Code::kInvalidArgument, "rows have %zu values, the model takes %llu",
                  dataset.feature_count(), static_cast<unsigned long long>(model.input_features()));
    PACELINE_ASSIGN(std::unique_ptr<Trainer> trainer,
                    make_trainer(model, batch, backend, run.spec.training.loss));
    run.trainer = data->live
                      ? make_live_trainer(data, std::move(trainer), schema, order, noise)
                      : std::make_unique<DatasetTrainer>(data, std::move(trainer), order, noise);
    return run;
  };
}

}  // namespace paceline
