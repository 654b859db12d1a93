#include "runtime/data/describe.h"

#include <algorithm>
#include <vector>

namespace paceline {

namespace {

constexpr size_t kNamesShownMax = 12;

std::string with_commas(size_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string memory_text(size_t bytes) {
  const double amount = static_cast<double>(bytes);
  if (bytes < 1024) return format_text("%zu bytes", bytes);
  if (bytes < 1024 * 1024) return format_text("%.1f KiB", amount / 1024);
  return format_text("%.1f MiB", amount / (1024 * 1024));
}

std::string shape_text(std::span<const uint32_t> shape) {
  std::string text;
  for (const uint32_t length : shape) text += (text.empty() ? "" : " x ") + std::to_string(length);
  return text;
}

struct ValueRange {
  float low = 0;
  float high = 0;
  std::vector<size_t> constant_columns;
};

ValueRange value_range(const Dataset& dataset) {
  std::vector<float> low(dataset.feature_count()), high, row(dataset.feature_count());
  std::vector<int32_t> label(1);
  for (uint32_t i = 0; i < dataset.row_count(); ++i) {
    dataset.gather({&i, 1}, row, label);
    if (i == 0) low = high = row;
    for (size_t k = 0; k < row.size(); ++k) {
      if (row[k] < low[k]) low[k] = row[k];
      if (row[k] > high[k]) high[k] = row[k];
    }
  }
  ValueRange range{
      *std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end()), {}};
  // A column of windows has a value at each place.
  const size_t window = dataset.windows().rows;
  for (size_t k = 0; k < low.size(); k += window)
    if (std::equal(low.begin() + static_cast<std::ptrdiff_t>(k),
                   low.begin() + static_cast<std::ptrdiff_t>(k + window),
                   high.begin() + static_cast<std::ptrdiff_t>(k)))
      range.constant_columns.push_back(k / window);
  return range;
}

std::string class_text(const Dataset& dataset) {
  if (dataset.labels().empty()) return "no labels";
  std::vector<size_t> counts(dataset.class_count());
  for (const int32_t label : dataset.labels()) ++counts[static_cast<size_t>(label)];
  size_t smallest = dataset.row_count(), largest = 0, empty = 0;
  for (const size_t count : counts) {
    largest = std::max(largest, count);
    if (count > 0) smallest = std::min(smallest, count);
    empty += count == 0;
  }
  std::string text =
      format_text("%u classes of %s", dataset.class_count(), with_commas(smallest).c_str());
  if (largest != smallest) text += " to " + with_commas(largest);
  text += " rows";
  if (empty > 0) text += format_text(" (%zu classes have none)", empty);
  return text;
}

// Of rows that hold non-zeros only; which features there are is a note of the reader's.
std::string describe_sparse(const Dataset& dataset, const SparseRows& rows) {
  size_t shortest = SIZE_MAX, longest = 0;
  float low = 0, high = 0;  // of rows whose other values are 0
  for (size_t i = 0; i < rows.row_count(); ++i) {
    shortest = std::min(shortest, rows.row(i).size());
    longest = std::max(longest, rows.row(i).size());
    for (const SparseEntry& entry : rows.row(i)) {
      if (entry.value < low) low = entry.value;
      if (entry.value > high) high = entry.value;
    }
  }
  return format_text(
      "%s sparse rows of %zu to %zu values that are not 0 (%.1f on average; %.9g to %.9g), %s, "
      "%s in memory.",
      with_commas(rows.row_count()).c_str(), shortest, longest,
      static_cast<double>(rows.entry_count()) / static_cast<double>(rows.row_count()),
      static_cast<double>(low), static_cast<double>(high), class_text(dataset).c_str(),
      memory_text(dataset.bytes()).c_str());
}

}  // namespace

std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesShownMax); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kNamesShownMax)
    text += format_text(" and %zu more", names.size() - kNamesShownMax);
  return text;
}

namespace {

std::string classes_and_notes(const Dataset& dataset) {
  std::string text;
  if (!dataset.class_names.empty()) text += " Classes: " + name_list(dataset.class_names) + ".";
  for (const std::string& note : dataset.notes) text += " Note: " + note + ".";
  return text;
}

}  // namespace

std::string describe(const Dataset& dataset) {
  if (const SparseRows* sparse = dataset.sparse_rows())
    return describe_sparse(dataset, *sparse) + classes_and_notes(dataset);
  const std::string rows = with_commas(dataset.row_count());
  std::string text = rows + (dataset.windows().used() ? " windows" : " rows");
  if (dataset.shape().size() > 1) text += " of " + shape_text(dataset.shape());
  text +=
      " (" + with_commas(dataset.feature_count()) + " features, " + element_name(dataset.type());
  if (dataset.row_count() == 0) return text + "): no samples, so nothing to train on.";
  const ValueRange range = value_range(dataset);
  text += format_text(", %.9g to %.9g), ", static_cast<double>(range.low),
                      static_cast<double>(range.high));
  text += class_text(dataset) + ", " + memory_text(dataset.bytes()) + " in memory.";
  if (!dataset.column_names.empty()) text += " Features: " + name_list(dataset.column_names) + ".";
  if (!range.constant_columns.empty()) {
    text += format_text(" %zu features never change", range.constant_columns.size());
    std::vector<std::string> names;
    for (const size_t k : range.constant_columns)
      if (k < dataset.column_names.size()) names.push_back(dataset.column_names[k]);
    text += names.empty() ? "." : ": " + name_list(names) + ".";
  }
  return text + classes_and_notes(dataset);
}

}  // namespace paceline
