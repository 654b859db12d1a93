#include "runtime/base/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "runtime/base/nearest.h"

namespace paceline {

struct ConfigSection::Table {
  std::string source;
  std::string name;    // "" for the root
  toml::table values;  // of the root; a copy of a table would lose the places of its values
  std::shared_ptr<const Table> root;
  const toml::table* found = nullptr;  // in the root; null: absent

  const toml::node* get(const char* key) const {
    return found != nullptr ? found->get(key) : nullptr;
  }
};

namespace {

std::string nearest_hint(const std::string& name, const std::vector<std::string>& known) {
  const std::vector<std::string_view> views(known.begin(), known.end());
  return suggest_name(name, views);
}

std::string region_text(const std::string& source, const toml::source_region& region) {
  return format_text("%s:%u:%u", source.c_str(), static_cast<unsigned>(region.begin.line),
                     static_cast<unsigned>(region.begin.column));
}

}  // namespace

Result<Config> Config::parse(std::string_view text, const std::string& source) {
  auto table = std::make_shared<ConfigSection::Table>();
  table->source = source;
  try {
    table->values = toml::parse(text, source);
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "%s: %s", region_text(source, error.source()).c_str(),
                std::string(error.description()).c_str());
  }
  Config config;
  config.root_ = std::move(table);
  return config;
}

ConfigSection Config::section(const char* name) const {
  ConfigSection section;
  auto table = std::make_shared<ConfigSection::Table>();
  table->source = root_->source;
  table->name = name;
  table->root = root_;
  if (const toml::node* node = root_->values.get(name)) {
    table->found = node->as_table();
    if (table->found == nullptr)
      section.remember(fail(Code::kInvalidArgument, "%s: '%s' has to be a table: [%s]",
                            region_text(root_->source, node->source()).c_str(), name, name));
  }
  section.table_ = std::move(table);
  return section;
}

std::vector<ConfigSection> Config::sections(const char* name) const {
  std::vector<ConfigSection> sections;
  const toml::node* node = root_->values.get(name);
  const toml::array* array = node != nullptr ? node->as_array() : nullptr;
  if (node == nullptr) return sections;
  if (array == nullptr || !array->is_homogeneous<toml::table>()) {
    sections.push_back(section(name));
    return sections;
  }
  for (const toml::node& element : *array) {
    auto table = std::make_shared<ConfigSection::Table>();
    table->source = root_->source;
    table->name = name;
    table->root = root_;
    table->found = element.as_table();
    sections.emplace_back().table_ = std::move(table);
  }
  return sections;
}

Status Config::only(std::initializer_list<const char*> names) const {
  const std::vector<std::string> known(names.begin(), names.end());
  for (const auto& [key, node] : root_->values) {
    const std::string name(key.str());
    if (std::ranges::find(known, name) == known.end())
      return fail(Code::kInvalidArgument, "%s: no table is named '%s'%s",
                  region_text(root_->source, node.source()).c_str(), name.c_str(),
                  nearest_hint(name, known).c_str());
  }
  return {};
}

void ConfigSection::remember(Status status) {
  if (first_error_.ok()) first_error_ = std::move(status);
}

void ConfigSection::read(const char* key, double* value, double lowest, double highest) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  const std::optional<double> found = node->value<double>();
  if (!found || !(*found >= lowest && *found <= highest))
    return remember(fail(Code::kInvalidArgument, "%s: %s.%s has to be a number from %g to %g",
                         region_text(table_->source, node->source()).c_str(), table_->name.c_str(),
                         key, lowest, highest));
  *value = *found;
}

void ConfigSection::read(const char* key, uint64_t* value, uint64_t lowest, uint64_t highest) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  const std::optional<int64_t> found = node->value_exact<int64_t>();
  if (!found || *found < 0 || static_cast<uint64_t>(*found) < lowest ||
      static_cast<uint64_t>(*found) > highest)
    return remember(
        fail(Code::kInvalidArgument, "%s: %s.%s has to be a whole number from %llu to %llu",
             region_text(table_->source, node->source()).c_str(), table_->name.c_str(), key,
             static_cast<unsigned long long>(lowest), static_cast<unsigned long long>(highest)));
  *value = static_cast<uint64_t>(*found);
}

void ConfigSection::read(const char* key, uint32_t* value, uint64_t lowest, uint64_t highest) {
  uint64_t wide = *value;
  read(key, &wide, lowest, std::min<uint64_t>(highest, UINT32_MAX));
  *value = static_cast<uint32_t>(wide);
}

void ConfigSection::read(const char* key, bool* value) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  const std::optional<bool> found = node->value_exact<bool>();
  if (!found)
    return remember(fail(Code::kInvalidArgument, "%s: %s.%s has to be true or false",
                         region_text(table_->source, node->source()).c_str(), table_->name.c_str(),
                         key));
  *value = *found;
}

void ConfigSection::read(const char* key, std::string* value) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  const std::optional<std::string> found = node->value_exact<std::string>();
  if (!found)
    return remember(fail(Code::kInvalidArgument, "%s: %s.%s has to be a text in quotes",
                         region_text(table_->source, node->source()).c_str(), table_->name.c_str(),
                         key));
  *value = *found;
}

bool ConfigSection::has(const char* key) {
  known_.emplace_back(key);
  return table_->get(key) != nullptr;
}

std::string ConfigSection::place_of(const char* key) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr) node = table_->found;
  return node != nullptr ? region_text(table_->source, node->source()) : table_->source;
}

void ConfigSection::read(const char* key, std::vector<std::string>* values) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  const toml::array* list = node->as_array();
  if (list == nullptr)
    return remember(fail(Code::kInvalidArgument, "%s: %s.%s has to be a list: [\"a\", \"b\"]",
                         region_text(table_->source, node->source()).c_str(), table_->name.c_str(),
                         key));
  std::vector<std::string> found;
  for (const toml::node& element : *list) {
    std::optional<std::string> text = element.value_exact<std::string>();
    if (!text)
      return remember(fail(Code::kInvalidArgument, "%s: %s.%s has to hold texts in quotes only",
                           region_text(table_->source, element.source()).c_str(),
                           table_->name.c_str(), key));
    found.push_back(std::move(*text));
  }
  *values = std::move(found);
}

void ConfigSection::read(const char* key, std::vector<double>* values, double lowest,
                         double highest) {
  known_.emplace_back(key);
  const toml::node* node = table_->get(key);
  if (node == nullptr) return;
  std::vector<double> found;
  const auto take = [&](const toml::node& element) {
    const std::optional<double> number = element.value<double>();
    if (!number || !(*number >= lowest && *number <= highest)) {
      remember(fail(Code::kInvalidArgument, "%s: %s.%s has to hold numbers from %g to %g",
                    region_text(table_->source, element.source()).c_str(), table_->name.c_str(),
                    key, lowest, highest));
      return false;
    }
    found.push_back(*number);
    return true;
  };
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& element : *list)
      if (!take(element)) return;
  } else if (!take(*node)) {
    return;
  }
  *values = std::move(found);
}

Status ConfigSection::finish() {
  if (table_->found == nullptr) return first_error_;
  for (const auto& [key, node] : *table_->found) {
    const std::string name(key.str());
    if (std::ranges::find(known_, name) == known_.end())
      remember(fail(Code::kInvalidArgument, "%s: [%s] has no key '%s'%s",
                    region_text(table_->source, key.source()).c_str(), table_->name.c_str(),
                    name.c_str(), nearest_hint(name, known_).c_str()));
  }
  return first_error_;
}

Result<std::string> with_values(std::string_view toml, std::span<const ConfigValue> values) {
  try {
    toml::table root = toml::parse(toml);
    for (const ConfigValue& set : values) {
      root.insert(set.table, toml::table());
      toml::table* table = root.get(set.table)->as_table();
      if (table == nullptr)
        return fail(Code::kInvalidArgument, "'%s' has to be a table: [%s]", set.table.c_str(),
                    set.table.c_str());
      if (const auto* whole = std::get_if<uint64_t>(&set.value))
        table->insert_or_assign(set.key, static_cast<int64_t>(*whole));
      else if (const auto* number = std::get_if<double>(&set.value))
        table->insert_or_assign(set.key, *number);
      else
        table->insert_or_assign(set.key, std::get<std::string>(set.value));
    }
    std::ostringstream text;
    text << root << "\n";
    return text.str();
  } catch (const toml::parse_error& error) {
    return fail(Code::kInvalidArgument, "%s: %s", region_text("line", error.source()).c_str(),
                std::string(error.description()).c_str());
  }
}

}  // namespace paceline
