// Which kernel set runs: the best one that the CPU has, or the one that PACELINE_KERNELS names.
//
// All sets give the same bytes, so the choice is no input of anything; it is made once per process.
#pragma once

#include <span>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/quant/kernels.h"

namespace paceline {

// The sets of this build, best first; the last one is "scalar", which every CPU runs.
std::span<const KernelSet* const> kernel_sets();

// Whether this CPU can run it.
bool kernel_set_runs(const KernelSet& set);

// Errors: kNotFound, with the names of this build; kUnsupported if this CPU can't run it.
Result<const KernelSet*> kernel_set_by_name(std::string_view name);

// Chooses from the environment and the CPU. Programs call it first, so that a bad PACELINE_KERNELS
// is an error message; whoever forgets it gets the same choice at the first use, and a stop if it
// is bad. Errors: as kernel_set_by_name().
Status init_kernels();

// The chosen set.
const KernelSet& kernels();

// For tests and benchmarks: from here on `set`, which this CPU must run.
void use_kernels(const KernelSet& set);

}  // namespace paceline
