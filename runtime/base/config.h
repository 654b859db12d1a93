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
#include <span>
#include <string>
#include <string_view>
#include <variant>
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
  // A key that is asked for counts as read.
  bool has(const char* key);
  // "run.toml:3:10" of the key's value, of the table where there is none: for messages of readers
  // that know more about a value than its type.
  std::string place_of(const char* key) const;
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
  // One for each [[name]]; a plain [name] is one, too.
  std::vector<ConfigSection> sections(const char* name) const;
  // Refuses top-level tables that are not in `names`.
  Status only(std::initializer_list<const char*> names) const;

 private:
  std::shared_ptr<const ConfigSection::Table> root_;
};

// A value that takes the place of a file's.
struct ConfigValue {
  std::string table, key;
  std::variant<std::string, double, uint64_t> value;
};
// `toml` with these values in it, tables that it lacks included. It is written anew: comments and
// the order of keys are lost. Errors: kInvalidArgument.
Result<std::string> with_values(std::string_view toml, std::span<const ConfigValue> values);

}  // namespace paceline
