#include "runtime/data/label_column.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/base/utf8.h"
#include "runtime/data/dataset.h"
#include "runtime/data/load.h"
#include "runtime/data/number_text.h"

namespace paceline {

Status LabelColumn::add(std::string_view cell) {
  if (const auto found = index_of_.find(cell); found != index_of_.end()) {
    rows_.push_back(found->second);
    return Status();
  }
  const auto next = static_cast<int32_t>(names_.size());
  index_of_.emplace(std::string(cell), next);
  rows_.push_back(next);
  if (!is_utf8(cell)) return fail(Code::kCorrupt, "the label is not UTF-8; save the file as UTF-8");
  if (names_.size() == kClassesMax)
    return fail(Code::kResourceExhausted,
                "more than %u different labels; is this the label column?", kClassesMax);
  names_.push_back({std::string(cell), rows_.size()});
  return Status();
}

LabelColumn::Classes LabelColumn::renumber(const std::vector<int32_t>& class_of_name,
                                           std::vector<std::string> names) {
  Classes classes{std::move(rows_), std::move(names)};
  for (int32_t& label : classes.labels) label = class_of_name[static_cast<size_t>(label)];
  return classes;
}

Result<LabelColumn::Classes> LabelColumn::finish_numbers(const std::vector<int64_t>& values,
                                                         uint32_t class_count) {
  int64_t largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, values[i]);
    if (class_count != 0 && values[i] >= int64_t{class_count})
      return fail(Code::kCorrupt, "row %zu: label %s; classes are numbered 0 to %u",
                  names_[i].first_row, names_[i].text.c_str(), class_count - 1);
  }
  const size_t count = class_count != 0 ? class_count : static_cast<size_t>(largest) + 1;
  std::vector<std::string> names(values.empty() ? 0 : count);
  for (size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i);
  return renumber(std::vector<int32_t>(values.begin(), values.end()), std::move(names));
}

Result<LabelColumn::Classes> LabelColumn::finish(uint32_t class_count) {
  std::vector<int64_t> values;
  bool all_numbers = true;
  bool all_class_numbers = true;
  const Name* not_whole = nullptr;
  for (const Name& name : names_) {
    const std::optional<int64_t> whole = parse_whole(name.text);
    all_class_numbers &= whole && *whole >= 0 && *whole < int64_t{kClassesMax};
    if (!whole && parse_float32(name.text)) not_whole = not_whole != nullptr ? not_whole : &name;
    all_numbers &= whole || parse_float32(name.text);
    values.push_back(whole.value_or(0));
  }
  if (all_class_numbers) return finish_numbers(values, class_count);
  if (all_numbers && not_whole != nullptr)
    return fail(Code::kCorrupt,
                "row %zu: label %s is not a whole number; the label column must hold classes",
                not_whole->first_row, quote_for_message(not_whole->text).c_str());

  std::vector<size_t> order(names_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (all_numbers && values[a] != values[b]) return values[a] < values[b];
    return names_[a].text < names_[b].text;
  });
  std::vector<int32_t> class_of_name(names_.size());
  std::vector<std::string> sorted;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t index = order[i];
    // "-1" and "-1.0" are one class.
    const bool repeats = all_numbers && i > 0 && values[index] == values[order[i - 1]];
    if (repeats) {
      class_of_name[index] = class_of_name[order[i - 1]];
      continue;
    }
    if (class_count != 0 && sorted.size() == class_count)
      return fail(Code::kCorrupt, "row %zu: label %s; more than %u different labels",
                  names_[index].first_row, quote_for_message(names_[index].text).c_str(),
                  class_count);
    class_of_name[index] = static_cast<int32_t>(sorted.size());
    sorted.push_back(names_[index].text);
  }
  return renumber(class_of_name, std::move(sorted));
}

}  // namespace paceline
