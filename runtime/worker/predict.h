// `edge_worker predict`: what a trained model says of rows, on the board itself and without a
// server.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace paceline {

struct PredictOptions {
  std::string model_file;  // model.safetensors
  std::string run_file;    // empty: the run's text that the model's file holds
  std::string data_file;   // "-": standard input
  std::string label_column;
  bool follow = false;  // waits at the end of the file for more rows
  bool json = false;    // one object a line instead of CSV
  std::string backend = "auto";
};

// What a model is called in a worker's or a server's state folder.
inline constexpr const char* kModelFileName = "model.safetensors";

struct PredictOutput {
  std::function<void(std::string_view line)> answer;    // a whole line, for stdout
  std::function<void(std::string_view line)> complain;  // a whole line, for stderr
};

// One line a row: its line in the file, the label and its probability or a number in the label's
// units, microseconds, and the truth where the file has it; then a last line with the share that
// was right, or the root mean square error and R^2. Of windows one line each, its last row's; of a
// forecast the last value in place of the truth, and at the end how far off that was. A row that
// can't be read is complained of and the next one taken. Errors: kInvalidArgument, kNotFound or
// kCorrupt for files that can't be used at all, and, after all rows, where some of them could not
// be read.
Status predict_rows(const PredictOptions& options, const PredictOutput& output);

}  // namespace paceline
