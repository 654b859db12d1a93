// Settings from a TOML file: typed, bounded, with errors that name line, column and the nearest
// valid key.
//
//   PACELINE_ASSIGN(Config config, Config::parse(text, "run.toml"));
//   ConfigSection section = config.section("training");
//   section.read("batch", &batch, 1, 4096);
//   PACELINE_TRY(section.finish());
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

// One table. read() leaves the value alone where the key is absent. The first error is kept and
// given by finish(), which also refuses keys that nobody read.
class ConfigSection {
 public:
  void read(const char* key, double* value, double lowest, double highest);
  void read(const char* key, uint32_t* value, uint64_t lowest, uint64_t highest);
  void read(const char* key, uint64_t* value, uint64_t lowest, uint64_t highest);
  void read(const char* key, bool* value);
  void read(const char* key, std::string* value);
  void read(const char* key, std::vector<std::string>* values);
  // A number alone reads as a list of one.
  void read(const char* key, std::vector<double>* values, double lowest, double highest);
  Status finish();

 private:
  friend class Config;
  struct Table;
  void remember(Status status);

  std::shared_ptr<const Table> table_;
  std::vector<std::string> known_;
  Status first_error_;
};

class Config {
 public:
  // `source` names the text in messages: a path. Errors: kInvalidArgument with line and column.
  static Result<Config> parse(std::string_view text, const std::string& source);
  // An absent table reads as empty.
  ConfigSection section(const char* name) const;
  // Refuses top-level tables that are not in `names`.
  Status only(std::initializer_list<const char*> names) const;

 private:
  std::shared_ptr<const ConfigSection::Table> root_;
};

}  // namespace paceline
