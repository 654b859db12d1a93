#include "runtime/train/training.h"

#include "runtime/base/config.h"

namespace paceline {

Result<RunSpec> parse_run(std::string_view toml) {
  RunSpec run;
  PACELINE_ASSIGN(run.model, parse_model(toml));
  PACELINE_ASSIGN(const Config config, Config::parse(toml, "run"));
  TrainingSpec& training = run.training;
  ConfigSection section = config.section("training");
  section.read("batch", &training.batch, 1, 65'536);
  section.read("rate", &training.rate, 1e-9, 100);
  section.read("momentum", &training.momentum, 0, 0.9999);
  section.read("keep", &training.keep, 0.5, 1);
  section.read("seed", &training.seed, 0, INT64_MAX);
  PACELINE_TRY(section.finish());
  return run;
}

}  // namespace paceline
