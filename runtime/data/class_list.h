// The classes that a run names: which one a label cell means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace paceline {

// Looks a std::string key up by a view, without making a string.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class ClassList {
 public:
  explicit ClassList(std::vector<std::string> names);

  // The place in the list of the class that `cell`, trimmed already, names; a whole number also in
  // another spelling: "3.0" is "3". nullopt: none.
  std::optional<int32_t> find(std::string_view cell) const;
  // "; did you mean 'busy'?" or the list
  std::string suggest(std::string_view cell) const;
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  TextMap<int32_t> class_of_;
  std::unordered_map<int64_t, int32_t> class_of_number_;
};

}  // namespace paceline
