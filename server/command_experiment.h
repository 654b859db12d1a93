// `edge_server simulate EXPERIMENT.toml`: every run of an experiment, on several threads, with what
// was done already taken from the output folder.
//
// The folder holds runs/ (one file a run, named by a hash of all that decides it), runs.jsonl,
// table.csv and accuracy.svg. docs/simulator.md describes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/base/status.h"

namespace paceline {

struct ExperimentOptions {
  std::string file;
  std::string out = "paceline-experiment";
  uint32_t jobs = 0;  // threads; 0: as many as the machine has processors
  // Of the first run, which is then not taken from the folder. Empty: none.
  std::string trace_file;     // JSON lines: what each worker did when
  std::string timeline_file;  // the same as SVG
};

struct ExperimentResult {
  std::string table;
  size_t runs = 0;     // of the whole experiment
  size_t done = 0;     // in this call or before
  size_t cached = 0;   // of these: before
  std::string broken;  // the first run's that broke an invariant
};

// `stop` ends it in order: runs that are done are kept, the table is of these. The same file gives
// the same bytes of runs.jsonl whatever `jobs` is. Errors: what the file, the data or the folder is
// at fault for.
Result<ExperimentResult> run_experiment(const ExperimentOptions& options,
                                        const std::atomic<bool>& stop);

// The same with Ctrl-C as `stop`, and what there is to say printed.
// Errors: also a broken invariant.
Status simulate_experiment(const ExperimentOptions& options);

}  // namespace paceline
