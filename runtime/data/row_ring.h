// The newest rows of a table that is still being written, and the samples that they make, in memory
// that never grows.
//
// What is held out follows from a row's place in the series alone: of each kRingBlocks blocks of
// rows the last one. A sample belongs to the side that all its rows lie on; one that reaches over a
// line is dropped. So no row is ever on both sides, however long the series becomes.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/schema.h"
#include "runtime/data/windows.h"

namespace paceline {

inline constexpr uint64_t kRingBlocks = 5;
// Samples' spans in a block; more lose fewer samples at the lines, and start later.
inline constexpr uint64_t kRingBlockSpans = 8;
// Of rows: a board's memory. The columns are the server's word.
inline constexpr uint64_t kRingBytesMax = uint64_t{256} << 20;

struct RingSample {
  uint64_t first_row = 0;  // in the series
  int32_t label = 0;       // or
  float number = 0;        // with
  float last_number = 0;   // of its last row
};

struct RingRow {
  std::span<const float> features;  // before scaling
  int32_t label = 0;
  float number = 0;
  std::optional<double> time_s;
};

class RowRing {
 public:
  // Errors: kInvalidArgument for a ring that is too small for the run's samples, kResourceExhausted
  // for one of more than kRingBytesMax.
  static Result<RowRing> make(const DataSchema& schema, uint32_t rows_max);

  void leave_out() { cutter_.leave_out(); }
  void add(const RingRow& row);

  // Oldest first; valid until the next row.
  const std::deque<RingSample>& training() const { return training_; }
  const std::deque<RingSample>& held_out() const { return held_out_; }
  // No more samples than that are ever on that side.
  size_t training_max() const;
  size_t held_out_max() const;
  uint32_t feature_count() const { return static_cast<uint32_t>(columns_) * rules_.rows; }
  uint32_t class_count() const { return static_cast<uint32_t>(label_counts_.size()); }
  uint64_t row_count() const { return row_count_; }  // that came and counted
  // Writes a sample to `features` [columns][rows], scaled.
  void lay_out(const RingSample& sample, std::span<float> features) const;

 private:
  RowRing(const DataSchema& schema, uint32_t rows_max);
  uint64_t block_rows() const { return rules_.span() * kRingBlockSpans; }
  size_t samples_max(uint64_t rows) const;
  size_t place(uint64_t row) const { return static_cast<size_t>(row % rows_max_); }
  void keep(uint64_t first_row);

  WindowRules rules_;
  WindowCutter cutter_;
  std::vector<float> scale_, offset_;
  size_t columns_;
  uint64_t rows_max_;
  // The first rows stand once more behind the last, so that every window lies in one piece.
  std::vector<float> values_;
  std::vector<int32_t> labels_;
  std::vector<float> numbers_;
  std::vector<uint32_t> label_counts_;
  uint64_t row_count_ = 0;
  std::deque<RingSample> training_, held_out_;
};

}  // namespace paceline
