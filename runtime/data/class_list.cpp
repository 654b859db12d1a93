#include "runtime/data/class_list.h"

#include <utility>

#include "runtime/base/nearest.h"
#include "runtime/data/number_text.h"

namespace paceline {

ClassList::ClassList(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    class_of_.try_emplace(names_[i], index);
    if (const auto number = parse_whole(names_[i])) class_of_number_.try_emplace(*number, index);
  }
}

std::optional<int32_t> ClassList::find(std::string_view cell) const {
  if (const auto found = class_of_.find(cell); found != class_of_.end()) return found->second;
  if (class_of_number_.empty()) return std::nullopt;
  const std::optional<int64_t> number = parse_whole(cell);
  if (!number) return std::nullopt;
  const auto found = class_of_number_.find(*number);
  return found == class_of_number_.end() ? std::nullopt : std::optional(found->second);
}

std::string ClassList::suggest(std::string_view cell) const {
  const std::vector<std::string_view> views(names_.begin(), names_.end());
  return suggest_name(cell, views);
}

}  // namespace paceline
