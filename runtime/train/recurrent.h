// LSTM and GRU over the steps of a signal, in plain loops: what the two layers have in common.
//
// Weight row j of a gate holds its input part, [channels], then its recurrent part, [units]. The
// backward pass runs a row forward once more and keeps its steps: memory is that of one row,
// whatever the batch, and the price is a second forward pass.
#pragma once

#include <cstddef>

#include "runtime/train/layer.h"

namespace paceline {

enum class Cell {
  kLstm,  // gates i, f, g, o
  kGru,   // gates r, z, n; the reset gate acts on the recurrent product and its own bias
};

inline constexpr LayerKey kRecurrentKeys[] = {{"units", &LayerSpec::units, true, 1, 1u << 16},
                                              {.name = "sequence",
                                               .value = &LayerSpec::sequence,
                                               .required = false,
                                               .smallest = 0,
                                               .largest = 1}};

// The last state, [units], or with `sequence` all of them, [units, 1, length].
Status infer_recurrent(LayerSpec& spec);
// <name>.weight [gates * units, channels + units] and <name>.bias [4 * units]: of i, f, g, o, where
// f's is its distance from 1 (Jozefowicz et al. 2015), or of r, z, n and n's recurrent part.
void append_recurrent(Cell cell, const LayerSpec& spec, std::vector<TensorSpec>& tensors);
uint64_t recurrent_work_floats(Cell cell, const LayerSpec& spec);
void recurrent_forward(Cell cell, const LayerSpec& spec, const ForwardPass& pass);
void recurrent_backward(Cell cell, const LayerSpec& spec, const BackwardPass& pass);

}  // namespace paceline
