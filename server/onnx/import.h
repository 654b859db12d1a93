// An ONNX model as a run to train on: its description and its weights.
//
// A node takes what one before it gives, and constants; Add, Sum and Concat several. Batch
// normalisation keeps its statistics and becomes weights. A softmax at the end says that the model
// tells classes; it is part of the loss and so no layer. docs/onnx.md lists the operators.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/train/model.h"
#include "server/onnx/graph.h"

namespace paceline {

struct OnnxRefusal {
  std::string node;  // its name, or its place
  std::string op;
  std::string reason;
};

struct OnnxImport {
  std::string toml;  // [model], [[layer]] and, where it scales its inputs, [data]
  ModelSpec model;
  std::vector<float> parameters;   // [model.layout.element_count()]
  std::vector<std::string> notes;  // what a person should know
  // Every node that can't be taken. If there is one, the rest holds what came before it.
  std::vector<OnnxRefusal> refused;
};

// `numbers`: the outputs are numbers, not classes. Errors: kUnsupported or kCorrupt for a model
// that fails as a whole.
Result<OnnxImport> import_onnx(const OnnxModel& model, bool numbers);

// What is known of it: layers with shapes and parameters, notes, refusals.
std::string import_text(const OnnxImport& import);

}  // namespace paceline
