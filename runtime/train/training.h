// How a model is trained: the settings that the server gives every worker, beside the model itself
// and the noise on its updates (privacy/privacy.h).
//
//   [training]
//   batch = 32          # rows of one local step
//   rate = 0.02         # learning rate at the start; the server's directives carry the present one
//   loss = "softmax"    # of classes; of numbers "mse" or "huber"
//   optimizer = "sgd"   # or another of optimizer.h
//   momentum = 0.9      # of sgd, nesterov, rmsprop, adagrad (0); adam and adamw have beta1
//   keep = 1.0          # factor on every parameter at each new version (weight decay); 1 = none
//   seed = 1            # of the model's start, the rotations and the order of rows
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/privacy/privacy.h"
#include "runtime/train/loss.h"
#include "runtime/train/model.h"
#include "runtime/train/optimizer.h"

namespace paceline {

struct TrainingSpec {
  uint32_t batch = 32;
  double rate = 0.05;
  double momentum = 0.9;
  OptimizerOptions optimizer;  // but for beta1, which is `momentum`
  double keep = 1;
  // Pulls local steps back to the round's model: adds this times (weights - published) to a
  // gradient (FedProx, Li et al. 2020); 0: off.
  double proximal = 0;
  uint64_t seed = 1;
  LossOptions loss;
};

// Model and training settings of one text: what a worker needs to know of a run.
struct RunSpec {
  ModelSpec model;
  TrainingSpec training;
  std::optional<PrivacySpec> privacy;
};

// Other tables than [model], [[layer]], [training] and [privacy] are left to other readers: [data]
// to data/schema.h. Errors: as parse_model().
Result<RunSpec> parse_run(std::string_view toml);

Optimizer make_optimizer(const RunSpec& run);

// What updates may move, in order: neither pads, nor statistics, nor what is frozen.
std::vector<ElementRange> trained_elements(const ModelSpec& model);

}  // namespace paceline
