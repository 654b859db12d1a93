// Rows of features with labels, as a worker holds them.
//
// Values stay in the element type of their file (images: one byte a pixel) and become float32 when
// a batch is gathered: value * scale + offset, one rounding each, so a mixed fleet sees equal
// inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

enum class ElementType : uint8_t { kUint8, kInt8, kInt16, kInt32, kFloat32, kFloat64 };
size_t element_bytes(ElementType type);
const char* element_name(ElementType type);  // "uint8"

// More classes than this are a measurement or a wrong column, not a class list.
inline constexpr uint32_t kClassesMax = 65536;

class Dataset {
 public:
  Dataset() = default;
  // values  rows x feature_count elements of `type`, host byte order
  // shape   of one row, product = feature_count: {28, 28} for an image
  // labels  one per row, 0 <= label < class_count; empty for unlabelled data
  Dataset(ElementType type, Bytes values, std::vector<uint32_t> shape, std::vector<int32_t> labels,
          uint32_t class_count);

  size_t row_count() const { return row_count_; }
  size_t feature_count() const { return feature_count_; }
  std::span<const uint32_t> shape() const { return shape_; }
  uint32_t class_count() const { return class_count_; }
  std::span<const int32_t> labels() const { return labels_; }
  // Where a row's label is a number: one a row, as in the file; labels() are then empty.
  std::span<const float> numbers() const { return numbers_; }
  bool has_labels() const { return !labels_.empty() || !numbers_.empty(); }
  ElementType type() const { return type_; }
  size_t bytes() const;  // memory held by values and labels

  // Column names and class names where the source has them (CSV header); else empty.
  std::vector<std::string> column_names;
  std::vector<std::string> class_names;
  // What the reader left out, for the user: "rows without content, skipped: 114".
  std::vector<std::string> notes;

  // x = value * scale + offset; default 1 and 0. Images: scale 1/255.
  //   scale, offset  one number for all features or one for each
  void set_scaling(std::vector<float> scale, std::vector<float> offset);
  void set_scaling(float scale, float offset) {
    set_scaling(std::vector<float>{scale}, std::vector<float>{offset});
  }

  // Before any row is taken out. One a row.
  void set_numbers(std::vector<float> numbers);
  // The target that a net learns is number * scale + offset.
  void set_number_scaling(float scale, float offset) {
    number_scale_ = scale;
    number_offset_ = offset;
  }

  // Writes the rows `rows` (each < row_count()) to features [rows.size()][feature_count] and labels
  // [rows.size()] (may be empty for unlabelled data). No allocation.
  void gather(std::span<const uint32_t> rows, std::span<float> features,
              std::span<int32_t> labels) const;
  // The targets of `rows`, whose labels are numbers.
  void gather_targets(std::span<const uint32_t> rows, std::span<float> targets) const;

  // A data set of `rows` only, in that order.
  Dataset select(std::span<const uint32_t> rows) const;
  // Keeps `rows` only, in that order, and frees the rest.
  void keep(std::span<const uint32_t> rows);

 private:
  ElementType type_ = ElementType::kFloat32;
  Bytes values_;
  std::vector<uint32_t> shape_;
  std::vector<int32_t> labels_;
  std::vector<float> numbers_;
  float number_scale_ = 1;
  float number_offset_ = 0;
  uint32_t class_count_ = 0;
  size_t row_count_ = 0;
  size_t feature_count_ = 0;
  // Either both of one element, or both of feature_count_.
  std::vector<float> scale_ = {1};
  std::vector<float> offset_ = {0};
};

}  // namespace paceline
