// What the runs of an experiment came to together: a table, a CSV file, plots with spread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/report/run_record.h"

namespace paceline {

// In all functions `runs` are in order of their points; runs of a point are repeats of it. Runs
// that broke an invariant count nowhere.

// Lines for a terminal: mean and, behind "+-", standard deviation over the repeats.
std::string experiment_table(std::span<const RunRecord> runs);

// The same figures and more, one line a point; empty cells where there is no figure.
std::string experiment_csv(std::span<const RunRecord> runs);

// Accuracy over time and over bytes as SVG: mean lines, bands from the lowest to the highest
// repeat.
std::string experiment_plot(const std::string& title, std::span<const RunRecord> runs);

}  // namespace paceline
