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
  PACELINE_CHECK(row_count_ <= UINT32_MAX);
  PACELINE_CHECK(labels_.empty() || labels_.size() == row_count_);
  for (const int32_t label : labels_)
    PACELINE_CHECK(label >= 0 && static_cast<uint32_t>(label) < class_count_);
}

void Dataset::set_scaling(std::vector<float> scale, std::vector<float> offset) {
  PACELINE_CHECK(scale.size() == 1 || scale.size() == feature_count_);
  PACELINE_CHECK(offset.size() == 1 || offset.size() == feature_count_);
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

size_t Dataset::bytes() const {
  return values_.capacity() + labels_.capacity() * sizeof(labels_[0]) +
         numbers_.capacity() * sizeof(numbers_[0]);
}

void Dataset::gather(std::span<const uint32_t> rows, std::span<float> features,
                     std::span<int32_t> labels) const {
  for (const uint32_t row : rows) PACELINE_CHECK(row < row_count_);
  PACELINE_CHECK(features.size() == rows.size() * feature_count_);
  PACELINE_CHECK(labels.size() == (labels_.empty() ? labels.size() : rows.size()));
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
  scale_rows(scale_, offset_, features);
  if (labels_.empty()) return;
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[rows[i]];
}

void Dataset::gather_targets(std::span<const uint32_t> rows, std::span<float> targets) const {
  PACELINE_CHECK(targets.size() == rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    PACELINE_CHECK(rows[i] < numbers_.size());
    targets[i] = numbers_[rows[i]] * number_scale_ + number_offset_;
  }
}

Dataset Dataset::select(std::span<const uint32_t> rows) const {
  const size_t row_bytes = feature_count_ * element_bytes(type_);
  Bytes values(rows.size() * row_bytes);
  std::vector<int32_t> labels(labels_.empty() ? 0 : rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    PACELINE_CHECK(rows[i] < row_count_);
    std::memcpy(values.data() + i * row_bytes, values_.data() + rows[i] * row_bytes, row_bytes);
    if (!labels.empty()) labels[i] = labels_[rows[i]];
  }
  Dataset selected;
  selected.column_names = column_names;
  selected.class_names = class_names;
  selected.notes = notes;
  selected.type_ = type_;
  selected.values_ = std::move(values);
  selected.shape_ = shape_;
  selected.labels_ = std::move(labels);
  for (const uint32_t row : rows)
    if (!numbers_.empty()) selected.numbers_.push_back(numbers_[row]);
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
