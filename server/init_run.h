// `edge_server init`: proposes a run for a table that nobody has described yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/table_profile.h"

namespace paceline {

struct InitOptions {
  std::string sample_file;
  std::string run_file = "run.toml";
  // Empty: the last column with few different values, else the last with many numbers.
  std::string label;
  std::vector<std::string> ignored;  // besides what is no feature by itself
  // Rows of a sample. 0: by the table's times, 1 where it has none.
  uint32_t window = 0;
  std::string forecast;  // a column whose value `horizon` rows ahead is the label; empty: none
  uint32_t horizon = 1;
  uint32_t workers = 1;  // boards that the run waits for
  bool force = false;    // replaces run_file
};

struct RunProposal {
  std::string toml;     // commented; parse_serve_config() takes it
  std::string summary;  // what was chosen and why, in a few lines
};

// A label of few different values is a class, one of many numbers is a number to be predicted.
// Pure. Errors: kNotFound for a name that the table has not; kInvalidArgument where it has no
// feature or no label of either kind.
Result<RunProposal> propose_run(const TableProfile& table, const InitOptions& options);

// Reads the sample, writes the run and returns what to tell the user. Errors: those of
// propose_run() and of reading the sample; kInvalidArgument where the run's file is there already.
Result<std::string> init_run(const InitOptions& options);

}  // namespace paceline
