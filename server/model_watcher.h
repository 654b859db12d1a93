// Evaluates published models on the server's own control set, on a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/train/trainer.h"
#include "server/report/summary.h"

namespace paceline {

struct Evaluated {
  double accuracy = 0;  // R^2 where labels are numbers
  double loss = 0;
};
// Mean over `rows` of `dataset`.
Result<Evaluated> evaluate_model(Trainer& trainer, const Dataset& dataset,
                                 std::span<const uint32_t> rows, std::span<const float> parameters);

class ModelWatcher {
 public:
  // Borrows `dataset`. Owns `trainer`.
  ModelWatcher(std::unique_ptr<Trainer> trainer, const Dataset& dataset,
               std::vector<uint32_t> rows);
  ~ModelWatcher();

  bool busy() const;
  // Takes a copy to evaluate; `point` says when and after how many bytes. Only while not busy.
  void offer(std::span<const float> parameters, CurvePoint point);
  // Points so far, in the order offered.
  std::vector<CurvePoint> curve() const;

 private:
  void run(std::stop_token stop);

  std::unique_ptr<Trainer> trainer_;
  const Dataset& dataset_;
  std::vector<uint32_t> rows_;
  mutable std::mutex mutex_;
  std::condition_variable_any offered_;
  std::optional<CurvePoint> next_;
  std::vector<float> parameters_;
  std::vector<CurvePoint> curve_;
  std::jthread thread_;
};

}  // namespace paceline
