// `edge_server replay --without WORKER`: about what a run's model would be without one worker.
//
// First order: the recorded updates are summed again without that worker's, over the weights of the
// others. What the others sent was computed on a model that had its updates; what they would have
// sent on another nobody knows. Exact where updates do not depend on the model, and the better the
// less the worker weighs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/command_replay.h"
#include "server/model_watcher.h"

namespace paceline {

struct WithoutOptions {
  std::string folder;  // the run's
  std::string worker;  // name
  // Rows to evaluate both models on; empty: they are not.
  std::string data_file = "";
  std::string label_file = "";
  std::string model_file = "";  // where the estimate goes; empty: nowhere
};

struct Without {
  Contribution worker;         // what it contributed to what is kept
  uint64_t updates = 0;        // of all workers
  uint64_t from_snapshot = 0;  // since then
  uint64_t from_publication = 0;
  std::vector<float> with;      // the published model
  std::vector<float> estimate;  // without the worker
  double moved_share = 0;       // |estimate - with| / |with|
  size_t rows = 0;              // that were evaluated on
  Evaluated accuracy_with, accuracy_without;
  bool numbers = false;  // labels are numbers, and accuracy is R^2
};

// Errors: those of replay_run(); kNotFound for a worker that contributed nothing; kUnsupported
// where the journals hold models instead of updates, or the run's rule is not the mean; those of
// the data and of writing.
Result<Without> replay_without(const WithoutOptions& options);

std::string without_text(const Without& without);

}  // namespace paceline
