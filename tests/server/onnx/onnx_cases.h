// ONNX's own test data (Debian: libonnx-testdata): a model, its inputs and what they give.
#pragma once

#include <string>
#include <vector>

#include "server/onnx/graph.h"

namespace paceline::test {

struct OnnxCase {
  std::string name;  // "node/test_relu"
  OnnxModel model;
  std::vector<OnnxTensor> inputs;
  std::vector<OnnxTensor> outputs;
};

// The folder of PACELINE_ONNX_TESTDATA or of the package; empty where there is none.
std::string onnx_case_folder();
// Every case that read_onnx() takes, by name.
std::vector<OnnxCase> onnx_cases();

}  // namespace paceline::test
