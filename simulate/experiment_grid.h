// The grid of an experiment: its axes, and what a value of one changes in a run.
#pragma once

#include "runtime/base/config.h"
#include "simulate/experiment.h"

namespace paceline {

// Whether the text is a run that can be served. Errors: kInvalidArgument with line and column.
Status check_run(const std::string& run_text, const std::string& source);

// Reads the axes and tries each value out. The rest of `experiment` is read already.
Status read_grid(ConfigSection section, Experiment* experiment);

}  // namespace paceline
