#include "tests/gates/rounds.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/check.h"

namespace paceline::test {

namespace {

struct Board {
  std::unique_ptr<LocalTrainer> trainer;
  std::unique_ptr<Sgd> optimizer;
  std::vector<float> residual;
  EncodedUpdate update;
};

double rate_at(const RoundsOptions& options, uint64_t round) {
  const double progress = static_cast<double>(round) / static_cast<double>(options.rounds);
  const double fall = std::max(0.0, 2 * progress - 1);
  return options.rate * (1 - fall * (1 - options.rate_end));
}

double relative_error(std::span<const float> arrived, std::span<const double> meant, double count) {
  double error = 0, size = 0;
  for (size_t i = 0; i < arrived.size(); ++i) {
    const double wanted = meant[i] / count;
    const double difference = static_cast<double>(arrived[i]) / count - wanted;
    error += difference * difference;
    size += wanted * wanted;
  }
  return size > 0 ? error / size : 0;
}

}  // namespace

double accuracy_of(Trainer& trainer, const Dataset& data, std::span<const float> parameters) {
  const size_t batch = trainer.batch_max();
  std::vector<float> features(batch * data.feature_count());
  std::vector<int32_t> labels(batch);
  std::vector<uint32_t> rows(batch);
  EvaluationCounts counts;
  for (size_t begin = 0; begin < data.row_count(); begin += batch) {
    const size_t count = std::min(batch, data.row_count() - begin);
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(begin));
    const auto used = std::span(rows).first(count);
    const auto used_features = std::span(features).first(count * data.feature_count());
    const auto used_labels = std::span(labels).first(count);
    data.gather(used, used_features, used_labels);
    PACELINE_CHECK(trainer.evaluate(parameters, used_features, used_labels, &counts).ok());
  }
  return static_cast<double>(counts.correct) / static_cast<double>(counts.rows);
}

RoundsResult run_rounds(const RoundsTask& task, const RoundsOptions& options) {
  const std::string run =
      task.model + format_text("[training]\nbatch = %u\nseed = %llu\n[data]\nscale = %.17g\n",
                               options.batch, static_cast<unsigned long long>(options.seed),
                               task.data_scale);
  const RunSpec spec = parse_run(run).value();
  const ParameterLayout& layout = spec.model.layout;
  const auto count = static_cast<size_t>(layout.element_count());
  std::unique_ptr<Trainer> evaluator = make_trainer(spec.model, 250, "auto").value();

  std::vector<Board> boards(task.boards.size());
  for (size_t i = 0; i < boards.size(); ++i) {
    boards[i].trainer =
        make_local_run_factory(task.boards[i], format_text("board%zu", i + 1), "auto")(run)
            .value()
            .trainer;
    boards[i].optimizer = std::make_unique<Sgd>(count, static_cast<float>(options.momentum));
    boards[i].residual.assign(count, 0.0f);
  }
  std::vector<float> master(count), published(count), local(count), gradient(count), sum(count);
  init_parameters(spec.model, options.seed, master);
  published = master;

  RoundsResult result;
  std::vector<double> accuracies, meant(count);
  const uint64_t evaluate_every = std::max<uint64_t>(options.rounds / 40, 1);
  for (uint64_t round = 1; round <= options.rounds; ++round) {
    const auto rate = static_cast<float>(rate_at(options, round - 1));
    std::ranges::fill(meant, 0.0);
    for (size_t i = 0; i < boards.size(); ++i) {
      Board& board = boards[i];
      local = published;
      for (uint32_t step = 0; step < options.tau; ++step) {
        PACELINE_CHECK(board.trainer->gradient(local, options.batch, gradient).has_value());
        board.optimizer->step(gradient, rate, local);
      }
      for (size_t k = 0; k < count; ++k) {
        local[k] -= published[k];
        meant[k] += static_cast<double>(local[k]) + static_cast<double>(board.residual[k]);
      }
      const CodecId codec = round <= options.warmup_rounds ? CodecId::kQ8 : options.up;
      const uint64_t key = options.rotation_per_board ? round * 1000 + i : round;
      PACELINE_CHECK(
          encode_update(layout, codec, {options.seed, key}, local, board.residual, &board.update)
              .ok());
      if (!options.feedback) std::ranges::fill(board.residual, 0.0f);
    }
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      std::vector<WeightedPayload> payloads;
      for (const Board& board : boards)
        payloads.push_back({verify_payload(layout, chunk, board.update.chunks[chunk]).value(), 1});
      sum_payloads(layout, chunk, payloads, options.seed, sum);
    }
    const auto divisor = static_cast<float>(boards.size());
    result.error += relative_error(sum, meant, static_cast<double>(boards.size())) /
                    static_cast<double>(options.rounds);
    apply_mean(sum, divisor, 1, master);
    EncodedUpdate delta;
    PACELINE_CHECK(encode_delta(layout, options.down, {downlink_seed(options.seed), round}, master,
                                published, &delta)
                       .ok());
    if (round % evaluate_every == 0)
      accuracies.push_back(accuracy_of(*evaluator, task.measured, published));
  }
  const size_t last = std::min<size_t>(accuracies.size(), 5);
  for (size_t i = accuracies.size() - last; i < accuracies.size(); ++i)
    result.accuracy += accuracies[i] / static_cast<double>(last);
  return result;
}

}  // namespace paceline::test
