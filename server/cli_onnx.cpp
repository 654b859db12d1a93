#include "server/cli_onnx.h"

#include <CLI/CLI.hpp>

namespace paceline {

void OnnxCommands::add_to(CLI::App& app) {
  import_command_ =
      app.add_subcommand("import", "make a run of an ONNX model, to train it further");
  import_command_->add_option("model", import_.model_file, "the model (.onnx)")->required();
  import_command_->add_flag("--check", import_.check,
                            "only list layers, parameters and every node that can't be taken");
  import_command_->add_option("-o,--out", import_.folder, "folder for run.toml and the weights")
      ->capture_default_str();
  import_command_->add_flag("--numbers", import_.numbers, "its outputs are numbers, not classes");
  import_command_->add_flag("--force", import_.force, "replace a run that is there");

  export_command_ = app.add_subcommand("export", "write a run's model as ONNX: raw rows in");
  export_command_
      ->add_option("run", export_.run, "the run's state folder, or a model (.safetensors)")
      ->required();
  export_command_->add_option("-o,--out", export_.file, "file to write")->capture_default_str();
}

std::optional<Result<std::string>> OnnxCommands::run() const {
  if (*import_command_) return import_model(import_);
  if (*export_command_) return export_model(export_);
  return std::nullopt;
}

}  // namespace paceline
