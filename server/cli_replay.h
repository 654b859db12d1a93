// The commands that look at a run, or at what it sends, on the command line.
#pragma once

#include <string>

#include "server/command_without.h"

namespace CLI {
class App;
}

namespace paceline {

class ReplayCommands {
 public:
  void add_to(CLI::App& app);
  // What to print; `whole`: whether all of the run was there. None if another command is asked for.
  struct Said {
    std::string text;
    bool whole = true;
  };
  std::optional<Result<Said>> run() const;

 private:
  Result<Said> replay() const;

  CLI::App* replay_command_ = nullptr;
  CLI::App* inspect_command_ = nullptr;
  CLI::App* leaves_command_ = nullptr;
  WithoutOptions options_;
  std::string run_file_;
};

}  // namespace paceline
