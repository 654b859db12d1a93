// `edge_server import` and `edge_server export`: ONNX models in and out.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace paceline {

struct ImportOptions {
  std::string model_file;
  std::string folder = "imported";  // gets run.toml and model.safetensors
  bool check = false;               // only says what would come of it
  bool numbers = false;             // the outputs are numbers, not classes
  bool force = false;               // replaces what the folder has
};

// What to tell the user. Errors: kUnsupported with every node that can't be taken; kCorrupt,
// kNotFound; kInvalidArgument where the folder has a run already.
Result<std::string> import_model(const ImportOptions& options);

struct ExportOptions {
  std::string run;  // a state folder, or a model's file (.safetensors)
  std::string file = "model.onnx";
};

Result<std::string> export_model(const ExportOptions& options);

}  // namespace paceline
