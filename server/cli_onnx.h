// The commands import and export on the command line.
#pragma once

#include <optional>
#include <string>

#include "server/command_onnx.h"

namespace CLI {
class App;
}

namespace paceline {

class OnnxCommands {
 public:
  void add_to(CLI::App& app);
  // What to print; none if another command is asked for.
  std::optional<Result<std::string>> run() const;

 private:
  CLI::App* import_command_ = nullptr;
  CLI::App* export_command_ = nullptr;
  ImportOptions import_;
  ExportOptions export_;
};

}  // namespace paceline
