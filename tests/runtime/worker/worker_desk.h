// A worker core on a desk: its server's half is said by hand, its gradients are known exactly.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/worker/worker_core.h"

namespace paceline::test {

// Row r pulls every parameter i towards x(r, i): the gradient of the mean over rows is w - mean x.
// Nothing else of a board's data or of a net is needed to follow a worker's books by hand.
class PullTrainer final : public LocalTrainer {
 public:
  explicit PullTrainer(const ParameterLayout& layout) : layout_(layout) {}

  static float target(uint64_t row, uint64_t element) {
    Random random(row, element);
    return random.symmetric();
  }
  // Mean target of rows [begin, begin + count).
  static double mean_target(uint64_t begin, uint64_t count, uint64_t element) {
    double sum = 0;
    for (uint64_t row = begin; row < begin + count; ++row)
      sum += static_cast<double>(target(row, element));
    return sum / static_cast<double>(count);
  }

  Result<float> gradient(std::span<const float> parameters, uint32_t rows,
                         std::span<float> gradient) override {
    std::ranges::fill(gradient, 0.0f);
    for (const TensorSpec& tensor : layout_.tensors())
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i)
        gradient[static_cast<size_t>(i)] = static_cast<float>(
            static_cast<double>(parameters[static_cast<size_t>(i)]) - mean_target(next_, rows, i));
    next_ += rows;
    if (poisoned) gradient[0] = std::nanf("");
    return poisoned ? std::nanf("") : 1.0f;
  }
  Result<EvaluationCounts> evaluate(std::span<const float>) override { return evaluated; }

  bool ready() const override { return !waiting; }

  bool poisoned = false;  // every gradient is no number
  EvaluationCounts evaluated{10, 7, 10 << 16};
  bool waiting = false;  // its rows have not come yet

 private:
  const ParameterLayout& layout_;
  uint64_t next_ = 0;
};

// Where gradient mass went, element by element.
struct MassBooks final : MassObserver {
  explicit MassBooks(size_t count) : produced_sum(count), lost_sum(count) {}
  void produced(std::span<const float> update) override { add(update, &produced_sum); }
  void lost(std::span<const float> values) override { add(values, &lost_sum); }
  static void add(std::span<const float> values, std::vector<double>* sum) {
    for (size_t i = 0; i < values.size(); ++i) (*sum)[i] += static_cast<double>(values[i]);
  }
  std::vector<double> produced_sum, lost_sum;
};

struct DeskSettings {
  uint32_t batch = 32;
  uint64_t training_rows = 3200;
  uint64_t held_out_rows = 0;
  double rate = 0.1;
  double momentum = 0.0;
  double proximal = 0.0;
  uint32_t inputs = 20;  // 20 x 3 weights and 3 biases: two blocks
  uint32_t units = 3;
  std::string layers = {};   // in front of the weights
  std::string privacy = {};  // its keys
  uint64_t noise_seed = 1;
  double epsilon_max = 0;
};

class WorkerDesk {
 public:
  explicit WorkerDesk(DeskSettings settings);

  // Up to the first Hello.
  void start();
  // Up to the first step on publication 1.
  void connect(Directive directive);
  // Says `message` on the lane of the newest request there.
  void reply(Lane lane, Message message);
  // The newest request of a lane; null if it is of another kind.
  template <class T>
  const T* asked(Lane lane = Lane::kExchange) const {
    const auto found = requests_.find(lane);
    return found == requests_.end() ? nullptr : std::get_if<T>(&found->second.envelope.message);
  }
  size_t request_count(Lane lane) const {
    const auto found = counts_.find(lane);
    return found == counts_.end() ? 0 : found->second;
  }
  void work(int units = 1);
  void fail(Lane lane);
  void pass_timer();
  void leave();

  // Answers pushes with Got until the commit is asked for; that commit.
  Exchange take_update();
  // What the update of the last take_update() decodes to.
  std::vector<float> decoded() const;
  CodecId decoded_codec() const { return codec_; }
  // Answers fetches with a key frame of `model` until the worker asks for something else or trains.
  void serve_model();
  Granted granted(Directive directive) const;
  Welcome welcome(Directive directive) const;
  // Grants the committed update; the model is what it was, under the next publication and round.
  void grant(Directive directive);

  WorkerCore& core() { return *core_; }
  PullTrainer& trainer() { return *trainer_; }
  const ParameterLayout& layout() const { return run_.model.layout; }

  TimeUs now = 1'000'000;
  std::vector<float> model;
  uint64_t generation = 1, publication = 1, round = 1;
  int key_frames_served = 0;

 private:
  void collect();

  DeskSettings settings_;
  std::string run_text_;
  RunSpec run_;
  PullTrainer* trainer_ = nullptr;
  std::unique_ptr<WorkerCore> core_;
  std::map<Lane, WorkerCore::Outgoing> requests_;
  std::map<Lane, size_t> counts_;
  std::vector<Bytes> chunks_;
  CodecId codec_ = CodecId::kRaw32;
};

// A directive as servers give it: fixed tau, no evaluation.
inline Directive directive_of(uint32_t tau, CodecId codec = CodecId::kRaw32, bool elastic = false) {
  Directive directive;
  directive.tau = tau;
  directive.steps_cap = 4 * tau;
  directive.codec_up = directive.codec_down = static_cast<uint8_t>(codec);
  directive.rate = 0.1f;
  directive.elastic = elastic;
  directive.evaluate = false;
  directive.reason = "by hand";
  return directive;
}

}  // namespace paceline::test
