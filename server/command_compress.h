// `edge_server bench compress`: what each codec costs in accuracy, and saves in bytes, with the
// user's own model and rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

struct CompressOptions {
  std::string run_file;  // [model], [training] and [data] count; codecs come from here
  std::string data_file;
  std::string label_file;
  std::string label_column;
  std::vector<std::string> ignored_columns;
  uint32_t boards = 4;
  double dirichlet_alpha = 0;       // 0: every board gets the same mix of classes
  std::vector<std::string> codecs;  // both ways; none: all. raw32 is always run: what others lose
  uint32_t tau = 1;                 // local steps between exchanges
  uint64_t rounds = 500;
  uint32_t seeds = 3;
  bool json = false;
};

using LinePrinter = std::function<void(const std::string& lines)>;

// Prints a codec's line as soon as its runs are done. The same options give the same text.
// Errors: kInvalidArgument, and those of reading files.
Status compare_codecs(const CompressOptions& options, const LinePrinter& print);

}  // namespace paceline
