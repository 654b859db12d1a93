#include "simulate/codec_rounds.h"

#include <algorithm>
#include <numeric>

#include "runtime/base/check.h"
#include "runtime/train/statistics.h"

namespace paceline {

namespace {

constexpr size_t kEvaluationBatch = 250;

struct Board {
  std::unique_ptr<LocalTrainer> trainer;
  std::unique_ptr<Optimizer> optimizer;
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

class Rounds {
 public:
  static Result<Rounds> make(const RoundsTask& task, const RoundsOptions& options) {
    Rounds rounds(task, options);
    PACELINE_ASSIGN(rounds.spec_, parse_run(task.run));
    if (statistic_count(rounds.spec_.model.layout) > 0)
      return fail(Code::kUnsupported, "codecs are compared without batch_norm: take group_norm");
    PACELINE_ASSIGN(rounds.evaluator_, make_trainer(rounds.spec_.model, kEvaluationBatch, "auto"));
    const size_t count = rounds.count();
    for (size_t i = 0; i < task.boards.size(); ++i) {
      // The name decides in which order a board takes its rows.
      const std::string name =
          format_text("board%zu-%llu", i + 1, static_cast<unsigned long long>(options.seed));
      Board board;
      PACELINE_ASSIGN(LocalRun run, make_local_run_factory(task.boards[i], name, "auto")(task.run));
      board.trainer = std::move(run.trainer);
      run.spec.training.momentum = options.momentum;
      board.optimizer = std::make_unique<Optimizer>(make_optimizer(run.spec));
      board.residual.assign(count, 0.0f);
      rounds.boards_.push_back(std::move(board));
    }
    for (std::vector<float>* vector :
         {&rounds.master_, &rounds.local_, &rounds.gradient_, &rounds.sum_})
      vector->resize(count);
    rounds.meant_.resize(count);
    init_parameters(rounds.spec_.model, options.seed, rounds.master_);
    rounds.published_ = rounds.master_;
    return rounds;
  }

  // Adds the round's error and bytes to `result`.
  Status go(uint64_t round, RoundsResult* result) {
    std::ranges::fill(meant_, 0.0);
    for (size_t i = 0; i < boards_.size(); ++i) {
      PACELINE_TRY(compute(boards_[i], round, i));
      result->bytes_up += static_cast<double>(boards_[i].update.bytes());
    }
    aggregate();
    const auto board_count = static_cast<double>(boards_.size());
    result->error += relative_error(sum_, meant_, board_count);
    apply_mean(sum_, static_cast<float>(board_count), 1, master_);
    PACELINE_TRY(encode_delta(spec_.model.layout, options_.down,
                              {downlink_seed(options_.seed), round}, master_, published_, &delta_));
    result->bytes_down += static_cast<double>(delta_.bytes());
    return {};
  }

  double accuracy() { return accuracy_of(*evaluator_, task_.measured, published_); }

 private:
  Rounds(const RoundsTask& task, const RoundsOptions& options) : task_(task), options_(options) {}

  size_t count() const { return static_cast<size_t>(spec_.model.layout.element_count()); }

  // A board's local steps, and what it sends of them.
  Status compute(Board& board, uint64_t round, size_t index) {
    const auto rate = static_cast<float>(rate_at(options_, round - 1));
    local_ = published_;
    for (uint32_t step = 0; step < options_.tau; ++step) {
      std::ranges::fill(gradient_, 0.0f);  // boards share it, and sparse rows write few elements
      if (const auto loss = board.trainer->gradient(local_, spec_.training.batch, gradient_); !loss)
        return loss.error();
      board.optimizer->step(gradient_, rate, local_);
    }
    for (size_t k = 0; k < local_.size(); ++k) {
      local_[k] -= published_[k];
      meant_[k] += static_cast<double>(local_[k]) + static_cast<double>(board.residual[k]);
    }
    const CodecId codec = round <= options_.warmup_rounds ? CodecId::kQ8 : options_.up;
    const uint64_t key = options_.rotation_per_board ? round * 1000 + index : round;
    PACELINE_TRY(encode_update(spec_.model.layout, codec, {options_.seed, key}, local_,
                               board.residual, &board.update));
    if (!options_.feedback) std::ranges::fill(board.residual, 0.0f);
    return {};
  }

  void aggregate() {
    const ParameterLayout& layout = spec_.model.layout;
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      std::vector<WeightedPayload> payloads;
      for (const Board& board : boards_)
        payloads.push_back({verify_payload(layout, chunk, board.update.chunks[chunk]).value(), 1});
      sum_payloads(layout, chunk, payloads, options_.seed, sum_);
    }
  }

  const RoundsTask& task_;
  const RoundsOptions& options_;
  RunSpec spec_;
  std::unique_ptr<Trainer> evaluator_;
  std::vector<Board> boards_;
  std::vector<float> master_, published_, local_, gradient_, sum_;
  std::vector<double> meant_;
  EncodedUpdate delta_;
};

}  // namespace

std::shared_ptr<LocalData> board_of(const Dataset& all, std::span<const uint32_t> rows) {
  auto data = std::make_shared<LocalData>();
  data->dataset = all;
  data->dataset.keep(rows);
  data->split.training.resize(data->dataset.row_count());
  std::iota(data->split.training.begin(), data->split.training.end(), 0u);
  return data;
}

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

Result<RoundsResult> run_rounds(const RoundsTask& task, const RoundsOptions& options) {
  PACELINE_ASSIGN(Rounds rounds, Rounds::make(task, options));
  RoundsResult result;
  std::vector<double> accuracies;
  const uint64_t evaluate_every = std::max<uint64_t>(options.rounds / 40, 1);
  for (uint64_t round = 1; round <= options.rounds; ++round) {
    PACELINE_TRY(rounds.go(round, &result));
    if (round % evaluate_every == 0) accuracies.push_back(rounds.accuracy());
  }
  const auto rounds_run = static_cast<double>(options.rounds);
  result.error /= rounds_run;
  result.bytes_up /= rounds_run * static_cast<double>(task.boards.size());
  result.bytes_down /= rounds_run;
  const size_t last = std::min<size_t>(accuracies.size(), 5);
  for (size_t i = accuracies.size() - last; i < accuracies.size(); ++i)
    result.accuracy += accuracies[i] / static_cast<double>(last);
  return result;
}

}  // namespace paceline
