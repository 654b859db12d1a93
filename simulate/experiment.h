// An experiment's file: a run, the data, simulated boards and a grid of settings to compare.
//
//   [experiment]  seconds, seed, repeats, train, workers, targets, evaluate_every_s, backend
//   [run]         file = "run.toml", or the same tables inline: [run.model], [[run.layer]], ...
//   [data]        file, labels, label_column, control_rows, dirichlet
//   [[worker]]    name, count, step_ms, ..., link, ..., joins_at, leaves_at, crash_at, back_after
//   [grid]        lists: pace, freq, codec_up, codec_down, rate, ..., link, workers, dirichlet
//
// docs/simulator.md tells every key; kExampleExperiment shows them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/server_core.h"
#include "simulate/conditions.h"

namespace paceline {

struct WorkerPlan {
  std::string name;
  SpeedPlan speed;
  LinkPlan link;
  // Seconds; below 0: never.
  double joins_at = 0;
  double leaves_at = -1;
  double crash_at = -1;
  double back_after = -1;
};

struct DataPlan {
  std::string file;
  std::string label_file;
  std::string label_column;
  uint64_t control_rows = 0;  // the last ones; no worker has them
  double dirichlet = 0;       // label skew; 0: rows are dealt out evenly
};

using GridValue = std::variant<std::string, double, uint64_t>;
std::string grid_text(const GridValue& value);

struct GridAxis {
  std::string key;
  std::vector<GridValue> values;
};

struct Experiment {
  std::string source;    // for messages
  std::string run_text;  // what `edge_server serve` would be given
  double seconds = 60;
  uint64_t seed = 1;
  uint64_t repeats = 1;  // with seed, seed + 1, ...
  bool train = true;
  uint64_t workers = 0;  // 0: as many as are listed; else these in turn, so many
  std::vector<double> targets;
  double evaluate_every_s = 1;
  std::string backend = "auto";
  DataPlan data;
  std::vector<WorkerPlan> worker_plans;
  std::vector<GridAxis> grid;

  size_t point_count() const;
  size_t run_count() const { return point_count() * static_cast<size_t>(repeats); }
};

// One run of the grid: everything that decides it, but the data's bytes.
struct RunPlan {
  size_t point = 0;
  std::vector<std::pair<std::string, std::string>> settings;
  uint64_t seed = 1;
  ServerOptions server;
  std::vector<WorkerPlan> workers;
  DataPlan data;
  double seconds = 60;
  double evaluate_every_s = 1;
  std::vector<double> targets;
  std::string backend;
  // All of the above as text; two runs with the same one are the same.
  std::string identity() const;
};

// `source` names the text in messages; relative paths in it are of `folder`. Every point of the
// grid is tried out. Errors: kInvalidArgument with line and column, and the nearest key.
Result<Experiment> parse_experiment(std::string_view text, const std::string& source,
                                    const std::string& folder);

// Run `index` < run_count(): the repeats of a point follow each other.
Result<RunPlan> plan_run(const Experiment& experiment, size_t index);

extern const char* const kExampleExperiment;

}  // namespace paceline
