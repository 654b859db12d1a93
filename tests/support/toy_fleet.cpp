#include "tests/support/toy_fleet.h"

#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/random.h"

namespace paceline::test {

namespace {
constexpr size_t kFeatures = 8;
constexpr uint32_t kClasses = 3;
}  // namespace

std::string toy_run_text(const ToyOptions& options) {
  return format_text(
      "[model]\ninput = [%zu]\nclasses = %u\n%s"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dense\"\nunits = %u\n"
      "[training]\nbatch = %u\nrate = %.17g\nmomentum = %.17g\nseed = 5\n",
      kFeatures, kClasses, options.batch_norm ? "[[layer]]\ntype = \"batch_norm\"\n" : "",
      options.hidden, kClasses, options.batch, options.rate, options.momentum);
}

std::shared_ptr<LocalData> toy_data(const ToyOptions& options, size_t index) {
  Random random(99, index);
  const size_t rows = options.rows_per_worker;
  std::vector<float> values(rows * kFeatures);
  std::vector<int32_t> labels(rows);
  for (size_t row = 0; row < rows; ++row) {
    const bool own = options.skewed && random.below(10) < 8;
    const auto label = static_cast<int32_t>(own ? index % kClasses : random.below(kClasses));
    labels[row] = label;
    for (size_t i = 0; i < kFeatures; ++i) {
      const float center = i % kClasses == static_cast<size_t>(label) ? 0.8f : -0.2f;
      const float noise = random.symmetric() + random.symmetric() + random.symmetric();
      values[row * kFeatures + i] = center + noise;
    }
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  auto data = std::make_shared<LocalData>();
  data->dataset =
      Dataset(ElementType::kFloat32, std::move(bytes), {kFeatures}, std::move(labels), kClasses);
  data->split = split_hold_out(rows);
  return data;
}

FleetOptions toy_fleet(const ToyOptions& options) {
  FleetOptions fleet;
  fleet.server.run_text = toy_run_text(options);
  Result<RunSpec> run = parse_run(fleet.server.run_text);
  PACELINE_CHECK(run.has_value());
  fleet.server.run = *run;
  fleet.server.pace = "bsp";
  fleet.server.freq = "fixed:1";
  fleet.server.codec_up = fleet.server.codec_down = CodecId::kRaw32;
  fleet.server.min_workers = static_cast<uint32_t>(options.workers);
  fleet.server.exchange_deadline_ms = 5000;
  for (size_t i = 0; i < options.workers; ++i) {
    FleetWorker worker;
    worker.name = format_text("w%zu", i);
    fleet.server.fleet.push_back(worker.name);
    const std::shared_ptr<LocalData> data = toy_data(options, i);
    worker.training_rows = data->split.training.size();
    worker.held_out_rows = data->split.held_out.size();
    worker.factory = make_local_run_factory(data, worker.name, options.backend);
    fleet.workers.push_back(std::move(worker));
  }
  fleet.faults.delay_us = 1000;
  return fleet;
}

EvaluationCounts toy_counts(const ToyOptions& options, std::span<const float> parameters) {
  const Result<RunSpec> run = parse_run(toy_run_text(options));
  Result<std::unique_ptr<Trainer>> trainer = make_trainer(run->model, 64, "reference");
  PACELINE_CHECK(trainer.has_value());
  EvaluationCounts counts;
  for (size_t worker = 0; worker < options.workers; ++worker) {
    const std::shared_ptr<LocalData> data = toy_data(options, worker);
    std::vector<float> features(64 * kFeatures);
    std::vector<int32_t> labels(64);
    for (size_t begin = 0; begin + 64 <= data->split.training.size(); begin += 64) {
      data->dataset.gather(std::span(data->split.training).subspan(begin, 64), features, labels);
      PACELINE_CHECK((*trainer)->evaluate(parameters, features, labels, &counts).ok());
    }
  }
  return counts;
}

double toy_loss(const ToyOptions& options, std::span<const float> parameters) {
  const EvaluationCounts counts = toy_counts(options, parameters);
  return static_cast<double>(counts.loss_fixed16) * 0x1p-16 / static_cast<double>(counts.rows);
}

}  // namespace paceline::test
