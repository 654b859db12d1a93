// Rows of features with labels, as a worker holds them: samples, for whoever trains on them.
//
// A sample is one row, or, once set_windows() was called, a window of several, which a batch gets
// as [columns][rows]. Everything that counts, picks or labels rows then means windows; the rows are
// still held once.
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
#include "runtime/data/sparse_rows.h"
#include "runtime/data/windows.h"

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

  // Sparse rows: a sample has the shape {2, non_zeros_max}, which no row exceeds.
  Dataset(SparseRows rows, uint32_t non_zeros_max, std::vector<int32_t> labels,
          uint32_t class_count);

  // Null: rows are dense.
  const SparseRows* sparse_rows() const { return is_sparse_ ? &sparse_ : nullptr; }
  size_t row_count() const { return row_count_; }
  size_t feature_count() const { return feature_count_; }
  std::span<const uint32_t> shape() const { return shape_; }
  uint32_t class_count() const { return class_count_; }
  std::span<const int32_t> labels() const { return labels_; }
  // Where a row's label is a number: one a row, as in the file; labels() are then empty.
  std::span<const float> numbers() const { return numbers_; }
  bool has_labels() const { return !labels_.empty() || !numbers_.empty(); }
  ElementType type() const { return type_; }
  size_t bytes() const;  // memory held by values, labels and windows

  // Column names and class names where the source has them (CSV header); else empty.
  std::vector<std::string> column_names;
  std::vector<std::string> class_names;
  // What the reader left out, for the user: "rows without content, skipped: 114".
  std::vector<std::string> notes;

  // x = value * scale + offset; default 1 and 0. Images: scale 1/255. Sparse rows are taken as they
  // are.
  //   scale, offset  one number for all features or one for each
  void set_scaling(std::vector<float> scale, std::vector<float> offset);
  void set_scaling(float scale, float offset) {
    set_scaling(std::vector<float>{scale}, std::vector<float>{offset});
  }

  // Before any row is taken out. One a row.
  void set_numbers(std::vector<float> numbers);
  // Makes windows of the rows, which are float32 and labelled; once, before the scaling is set and
  // any row is taken out. A window's class is that of most of its rows, of equally many the later
  // one; its number that of its last row, or of the row `horizon` behind it.
  //   first_rows  of each window; as many as its span exist from there on
  void set_windows(const WindowRules& rules, std::vector<uint32_t> first_rows);
  // The target that a net learns is number * scale + offset.
  void set_number_scaling(float scale, float offset) {
    number_scale_ = scale;
    number_offset_ = offset;
  }

  float number_scale() const { return number_scale_; }

  // Writes the rows `rows` (each < row_count()) to features [rows.size()][feature_count] and labels
  // [rows.size()] (may be empty for unlabelled data). No allocation.
  void gather(std::span<const uint32_t> rows, std::span<float> features,
              std::span<int32_t> labels) const;
  // The targets of `rows`, whose labels are numbers.
  void gather_targets(std::span<const uint32_t> rows, std::span<float> targets) const;
  // Of a forecast: what the targets are if the number stays what it was in each window's last row.
  void gather_last(std::span<const uint32_t> rows, std::span<float> targets) const;

  const WindowRules& windows() const { return windows_; }
  // What `sample` is made of: rows first_row() to first_row() + windows().span(), in the order that
  // they came in.
  uint32_t first_row(uint32_t sample) const;

  // A data set of `rows` only, in that order.
  Dataset select(std::span<const uint32_t> rows) const;
  // Keeps `rows` only, in that order, and frees the rest.
  void keep(std::span<const uint32_t> rows);

 private:
  size_t column_count() const { return feature_count_ / windows_.rows; }
  void scale_targets(std::span<const float> numbers, std::span<const uint32_t> rows,
                     std::span<float> targets) const;
  void gather_values(std::span<const uint32_t> rows, std::span<float> features) const;
  void gather_windows(std::span<const uint32_t> windows, std::span<float> features) const;
  void check_labels() const;
  Bytes take_rows(std::span<const uint32_t> samples, std::vector<uint32_t>* first_rows) const;

  ElementType type_ = ElementType::kFloat32;
  Bytes values_;
  SparseRows sparse_;  // in place of the values
  bool is_sparse_ = false;
  std::vector<uint32_t> shape_;
  std::vector<int32_t> labels_;
  std::vector<float> numbers_;
  std::vector<float> last_numbers_;  // of a forecast
  float number_scale_ = 1;
  float number_offset_ = 0;
  uint32_t class_count_ = 0;
  size_t row_count_ = 0;
  size_t feature_count_ = 0;
  WindowRules windows_;
  std::vector<uint32_t> first_rows_;  // of each window; empty: a sample is a row
  // Either both of one element, or both of column_count().
  std::vector<float> scale_ = {1};
  std::vector<float> offset_ = {0};
};

}  // namespace paceline
