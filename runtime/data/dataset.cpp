#include "runtime/data/dataset.h"

#include <cstring>
#include <utility>

#include "runtime/base/check.h"

namespace paceline {

namespace {

template <class T>
void gather_rows(const std::byte* values, size_t feature_count, std::span<const uint32_t> rows,
                 float* out) {
  const size_t row_bytes = feature_count * sizeof(T);
  for (const uint32_t row : rows) {
    const std::byte* source = values + row * row_bytes;
    for (size_t i = 0; i < feature_count; ++i) {
      T value;
      std::memcpy(&value, source + i * sizeof(T), sizeof(T));
      *out++ = static_cast<float>(value);
    }
  }
}

void scale_rows(std::span<const float> scale, std::span<const float> offset,
                std::span<float> features) {
  if (scale.size() == 1) {
    for (float& x : features) x = x * scale[0] + offset[0];
    return;
  }
  for (size_t begin = 0; begin < features.size(); begin += scale.size())
    for (size_t i = 0; i < scale.size(); ++i)
      features[begin + i] = features[begin + i] * scale[i] + offset[i];
}

}  // namespace

size_t element_bytes(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
    case ElementType::kInt8:
      return 1;
    case ElementType::kInt16:
      return 2;
    case ElementType::kInt32:
    case ElementType::kFloat32:
      return 4;
    case ElementType::kFloat64:
      return 8;
  }
  return 0;
}

const char* element_name(ElementType type) {
  switch (type) {
    case ElementType::kUint8:
      return "uint8";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kFloat32:
      return "float32";
    case ElementType::kFloat64:
      return "float64";
  }
  return "unknown";
}

Dataset::Dataset(ElementType type, Bytes values, std::vector<uint32_t> shape,
                 std::vector<int32_t> labels, uint32_t class_count)
    : type_(type),
      values_(std::move(values)),
      shape_(std::move(shape)),
      labels_(std::move(labels)),
      class_count_(class_count) {
  feature_count_ = 1;
  for (const uint32_t length : shape_)
    PACELINE_CHECK(!__builtin_mul_overflow(feature_count_, size_t{length}, &feature_count_));
  size_t row_bytes = 0;
  PACELINE_CHECK(!__builtin_mul_overflow(feature_count_, element_bytes(type_), &row_bytes));
  PACELINE_CHECK(row_bytes > 0);
  PACELINE_CHECK(values_.size() % row_bytes == 0);
  row_count_ = values_.size() / row_bytes;
  check_labels();
}

Dataset::Dataset(SparseRows rows, uint32_t non_zeros_max, std::vector<int32_t> labels,
                 uint32_t class_count)
    : sparse_(std::move(rows)),
      is_sparse_(true),
      shape_{2, non_zeros_max},
      labels_(std::move(labels)),
      class_count_(class_count),
      row_count_(sparse_.row_count()),
      feature_count_(size_t{2} * non_zeros_max) {
  PACELINE_CHECK(non_zeros_max > 0 && non_zeros_max <= kNonZerosMax);
  check_labels();
}

void Dataset::check_labels() const {
  PACELINE_CHECK(row_count_ <= UINT32_MAX);
  PACELINE_CHECK(labels_.empty() || labels_.size() == row_count_);
  for (const int32_t label : labels_)
    PACELINE_CHECK(label >= 0 && static_cast<uint32_t>(label) < class_count_);
}

void Dataset::set_scaling(std::vector<float> scale, std::vector<float> offset) {
  PACELINE_CHECK(scale.size() == 1 || scale.size() == column_count());
  PACELINE_CHECK(offset.size() == 1 || offset.size() == column_count());
  // One form for both, so that the loop over rows has no branch.
  if (scale.size() < offset.size()) scale.resize(offset.size(), scale[0]);
  if (offset.size() < scale.size()) offset.resize(scale.size(), offset[0]);
  scale_ = std::move(scale);
  offset_ = std::move(offset);
}

void Dataset::set_numbers(std::vector<float> numbers) {
  PACELINE_CHECK(numbers.size() == row_count_ && labels_.empty());
  numbers_ = std::move(numbers);
}

void Dataset::set_windows(const WindowRules& rules, std::vector<uint32_t> first_rows) {
  PACELINE_CHECK(rules.used() && !windows_.used() && !first_rows.empty());
  PACELINE_CHECK(type_ == ElementType::kFloat32 && has_labels() && !is_sparse_);
  std::vector<int32_t> labels;
  std::vector<float> numbers;
  std::vector<uint32_t> counts(class_count_);
  for (const uint32_t first : first_rows) {
    PACELINE_CHECK(first + uint64_t{rules.span()} <= row_count_);
    const size_t last = first + rules.rows - 1;
    if (numbers_.empty()) {
      labels.push_back(label_of_window(std::span(labels_).subspan(first, rules.rows), counts));
      continue;
    }
    numbers.push_back(numbers_[last + rules.horizon]);
    if (rules.horizon > 0) last_numbers_.push_back(numbers_[last]);
  }
  labels_ = std::move(labels);
  numbers_ = std::move(numbers);
  first_rows_ = std::move(first_rows);
  row_count_ = first_rows_.size();
  windows_ = rules;
  shape_ = {static_cast<uint32_t>(feature_count_), rules.rows};
  PACELINE_CHECK(!__builtin_mul_overflow(feature_count_, size_t{rules.rows}, &feature_count_));
}

uint32_t Dataset::first_row(uint32_t sample) const {
  PACELINE_CHECK(sample < row_count_);
  return first_rows_.empty() ? sample : first_rows_[sample];
}

size_t Dataset::bytes() const {
  return values_.capacity() + sparse_.bytes() + labels_.capacity() * sizeof(labels_[0]) +
         numbers_.capacity() * sizeof(numbers_[0]) +
         last_numbers_.capacity() * sizeof(last_numbers_[0]) +
         first_rows_.capacity() * sizeof(first_rows_[0]);
}

void Dataset::gather(std::span<const uint32_t> rows, std::span<float> features,
                     std::span<int32_t> labels) const {
  for (const uint32_t row : rows) PACELINE_CHECK(row < row_count_);
  PACELINE_CHECK(features.size() == rows.size() * feature_count_);
  PACELINE_CHECK(labels.size() == (labels_.empty() ? labels.size() : rows.size()));
  if (is_sparse_) {
    for (size_t i = 0; i < rows.size(); ++i)
      lay_out_sparse(sparse_.row(rows[i]), features.subspan(i * feature_count_, feature_count_));
  } else if (windows_.used()) {
    gather_windows(rows, features);
  } else {
    gather_values(rows, features);
    scale_rows(scale_, offset_, features);
  }
  if (labels_.empty()) return;
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[rows[i]];
}

void Dataset::gather_windows(std::span<const uint32_t> windows, std::span<float> features) const {
  const size_t columns = column_count();
  const auto* const rows = reinterpret_cast<const float*>(values_.data());
  for (size_t i = 0; i < windows.size(); ++i)
    lay_out_window({rows + first_rows_[windows[i]] * columns, feature_count_}, columns, scale_,
                   offset_, features.subspan(i * feature_count_, feature_count_));
}

void Dataset::gather_values(std::span<const uint32_t> rows, std::span<float> features) const {
  const auto gather_as = [&](auto gather_type) {
    gather_type(values_.data(), feature_count_, rows, features.data());
  };
  switch (type_) {
    case ElementType::kUint8:
      gather_as(gather_rows<uint8_t>);
      break;
    case ElementType::kInt8:
      gather_as(gather_rows<int8_t>);
      break;
    case ElementType::kInt16:
      gather_as(gather_rows<int16_t>);
      break;
    case ElementType::kInt32:
      gather_as(gather_rows<int32_t>);
      break;
    case ElementType::kFloat32:
      gather_as(gather_rows<float>);
      break;
    case ElementType::kFloat64:
      gather_as(gather_rows<double>);
      break;
  }
}

void Dataset::scale_targets(std::span<const float> numbers, std::span<const uint32_t> rows,
                            std::span<float> targets) const {
  PACELINE_CHECK(targets.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    PACELINE_CHECK(rows[i] < numbers.size());
    targets[i] = numbers[rows[i]] * number_scale_ + number_offset_;
  }
}

void Dataset::gather_targets(std::span<const uint32_t> rows, std::span<float> targets) const {
  scale_targets(numbers_, rows, targets);
}

void Dataset::gather_last(std::span<const uint32_t> rows, std::span<float> targets) const {
  scale_targets(last_numbers_, rows, targets);
}

// The rows that `samples` are made of, each once and in the order that they came in, so that what
// was one window still is.
Bytes Dataset::take_rows(std::span<const uint32_t> samples,
                         std::vector<uint32_t>* first_rows) const {
  const size_t row_bytes = column_count() * element_bytes(type_);
  std::vector<uint32_t> place(values_.size() / row_bytes);  // 0: not taken, else one behind its own
  for (const uint32_t sample : samples)
    for (uint32_t i = 0; i < windows_.span(); ++i) place[first_row(sample) + i] = 1;
  Bytes values;
  uint32_t taken = 0;
  for (size_t row = 0; row < place.size(); ++row) {
    if (place[row] == 0) continue;
    const std::byte* source = values_.data() + row * row_bytes;
    values.insert(values.end(), source, source + row_bytes);
    place[row] = ++taken;
  }
  for (const uint32_t sample : samples) first_rows->push_back(place[first_row(sample)] - 1);
  return values;
}

Dataset Dataset::select(std::span<const uint32_t> rows) const {
  Dataset selected;
  if (is_sparse_) {
    for (const uint32_t row : rows) selected.sparse_.add(sparse_.row(row));
  } else if (windows_.used()) {
    selected.values_ = take_rows(rows, &selected.first_rows_);
  } else {
    const size_t row_bytes = feature_count_ * element_bytes(type_);
    selected.values_.resize(rows.size() * row_bytes);
    for (size_t i = 0; i < rows.size(); ++i) {
      PACELINE_CHECK(rows[i] < row_count_);
      std::memcpy(selected.values_.data() + i * row_bytes, values_.data() + rows[i] * row_bytes,
                  row_bytes);
    }
  }
  for (const uint32_t row : rows) {
    if (!labels_.empty()) selected.labels_.push_back(labels_[row]);
    if (!numbers_.empty()) selected.numbers_.push_back(numbers_[row]);
    if (!last_numbers_.empty()) selected.last_numbers_.push_back(last_numbers_[row]);
  }
  selected.column_names = column_names;
  selected.class_names = class_names;
  selected.notes = notes;
  selected.type_ = type_;
  selected.is_sparse_ = is_sparse_;
  selected.shape_ = shape_;
  selected.windows_ = windows_;
  selected.number_scale_ = number_scale_;
  selected.number_offset_ = number_offset_;
  selected.class_count_ = class_count_;
  selected.row_count_ = rows.size();
  selected.feature_count_ = feature_count_;
  selected.scale_ = scale_;
  selected.offset_ = offset_;
  return selected;
}

void Dataset::keep(std::span<const uint32_t> rows) { *this = select(rows); }

}  // namespace paceline
