// Rows of the server's own, on which models of a run are evaluated.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/schema.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training.h"

namespace paceline {

struct ControlSet {
  Dataset dataset;
  std::unique_ptr<Trainer> trainer;
  std::vector<uint32_t> rows;  // all of them
};

// `label_file`: where labels are in a file of their own. Errors: those of the files;
// kInvalidArgument if the rows are none for the model.
Result<ControlSet> open_control_set(const std::string& file, const std::string& label_file,
                                    const RunSpec& run, const DataSchema& schema);

}  // namespace paceline
