#include "server/cli_replay.h"

#include <CLI/CLI.hpp>

#include "server/command_leaves.h"

namespace paceline {

void ReplayCommands::add_to(CLI::App& app) {
  replay_command_ = app.add_subcommand(
      "replay", "carry out a run's journals once more: rounds and checksum of the model");
  inspect_command_ =
      app.add_subcommand("inspect", "who contributed what to a run, and when, by its journals");
  for (CLI::App* command : {replay_command_, inspect_command_})
    command->add_option("folder", options_.folder, "the run's state folder")->required();
  CLI::Option* without = replay_command_->add_option(
      "--without", options_.worker,
      "a worker: about what the model would be without its updates (journal = \"payload\")");
  replay_command_
      ->add_option("--data", options_.data_file, "with --without: rows to try both models on")
      ->needs(without);
  replay_command_
      ->add_option("--labels", options_.label_file, "labels in a file of their own (IDX)")
      ->needs("--data");
  replay_command_
      ->add_option("--out", options_.model_file,
                   "with --without: file for that model (.safetensors)")
      ->needs(without);

  leaves_command_ = app.add_subcommand(
      "show-what-leaves", "what a board of a run sends, field by field, and what it never sends");
  leaves_command_->add_option("run", run_file_, "the run's description (TOML)")->required();
}

std::optional<Result<ReplayCommands::Said>> ReplayCommands::run() const {
  if (*replay_command_ || *inspect_command_) return replay();
  if (!*leaves_command_) return std::nullopt;
  return show_what_leaves(run_file_).map([](std::string text) { return Said{std::move(text)}; });
}

Result<ReplayCommands::Said> ReplayCommands::replay() const {
  if (!options_.worker.empty()) {
    PACELINE_ASSIGN(const Without without, replay_without(options_));
    return Said{without_text(without)};
  }
  PACELINE_ASSIGN(const Replay replay, replay_run(options_.folder));
  return Said{*replay_command_ ? replay_text(replay) : inspect_text(replay), replay.fault.empty()};
}

}  // namespace paceline
