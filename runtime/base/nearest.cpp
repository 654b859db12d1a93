#include "runtime/base/nearest.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace paceline {
namespace {

// Longer names are compared by their front: a bound for text that comes from files.
constexpr size_t kComparedCharactersMax = 64;

// Optimal string alignment distance: three rows of the usual table. `a` is not longer than the
// bound.
size_t edit_count(std::string_view a, std::string_view b) {
  b = b.substr(0, kComparedCharactersMax);
  using Row = std::array<size_t, kComparedCharactersMax + 1>;
  Row before_last{}, last{}, row{};
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = std::exchange(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view given, std::span<const std::string_view> names) {
  given = given.substr(0, kComparedCharactersMax);
  std::string_view nearest;
  size_t fewest = std::max<size_t>(1, given.size() / 3) + 1;
  for (std::string_view name : names) {
    const size_t edits = edit_count(given, name);
    if (edits < fewest) {
      fewest = edits;
      nearest = name;
    }
  }
  return nearest;
}

std::string suggest_name(std::string_view given, std::span<const std::string_view> names) {
  if (names.empty()) return {};
  if (const std::string_view nearest = nearest_name(given, names); !nearest.empty())
    return "; did you mean '" + std::string(nearest) + "'?";
  std::string text = "; known:";
  for (std::string_view name : names) text.append(name == names.front() ? " " : ", ").append(name);
  return text;
}

}  // namespace paceline
