#include "runtime/data/row_ring.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace paceline {

Result<RowRing> RowRing::make(const DataSchema& schema, uint32_t rows_max) {
  PACELINE_CHECK(schema.names_columns());
  const uint64_t blocks = uint64_t{schema.windows.span()} * kRingBlockSpans * kRingBlocks;
  if (rows_max < blocks)
    return fail(Code::kInvalidArgument,
                "a ring of %u rows is too small for samples of %u rows: give --ring-rows %llu or "
                "more",
                rows_max, schema.windows.span(), static_cast<unsigned long long>(blocks));
  const uint64_t row_bytes =
      schema.columns.size() * sizeof(float) + sizeof(int32_t) + sizeof(float);
  const uint64_t rows_possible = kRingBytesMax / row_bytes;
  if (uint64_t{rows_max} + schema.windows.rows > rows_possible)
    return fail(Code::kResourceExhausted,
                "a ring of %u rows of %zu columns takes more than %llu MiB: give --ring-rows %llu "
                "or less",
                rows_max, schema.columns.size(),
                static_cast<unsigned long long>(kRingBytesMax >> 20),
                static_cast<unsigned long long>(
                    rows_possible - std::min<uint64_t>(rows_possible, schema.windows.rows)));
  return RowRing(schema, rows_max);
}

RowRing::RowRing(const DataSchema& schema, uint32_t rows_max)
    : rules_(schema.windows),
      cutter_(rules_),
      scale_(schema.scale),
      offset_(schema.offset),
      columns_(schema.columns.size()),
      rows_max_(rows_max),
      values_((size_t{rows_max} + rules_.rows - 1) * columns_),
      labels_(size_t{rows_max} + rules_.rows - 1),
      numbers_(rows_max),
      label_counts_(schema.classes.size()) {}

void RowRing::add(const RingRow& row) {
  PACELINE_CHECK(row.features.size() == columns_);
  const size_t at = place(row_count_);
  const size_t repeated = at + 1 < rules_.rows ? static_cast<size_t>(rows_max_) + at : at;
  for (const size_t where : {at, repeated}) {
    std::ranges::copy(row.features,
                      values_.begin() + static_cast<std::ptrdiff_t>(where * columns_));
    labels_[where] = row.label;
  }
  numbers_[at] = row.number;
  ++row_count_;
  for (std::deque<RingSample>* side : {&training_, &held_out_})
    while (!side->empty() && side->front().first_row + rows_max_ < row_count_) side->pop_front();
  if (cutter_.add(row.time_s)) keep(row_count_ - rules_.span());
}

// A series without a break begins a sample every stride rows; one that breaks all the time ends a
// sample every span rows at best.
size_t RowRing::samples_max(uint64_t rows) const {
  return static_cast<size_t>(rows / std::min(rules_.stride, rules_.span()) + 1);
}

size_t RowRing::training_max() const {
  return samples_max(rows_max_ - rows_max_ / (block_rows() * kRingBlocks) * block_rows());
}

size_t RowRing::held_out_max() const {
  const uint64_t period = block_rows() * kRingBlocks;
  return samples_max(rows_max_ / period * block_rows() +
                     std::min(rows_max_ % period, block_rows()));
}

void RowRing::keep(uint64_t first_row) {
  const auto is_held_out = [&](uint64_t row) {
    return row / block_rows() % kRingBlocks == kRingBlocks - 1;
  };
  // Shorter than a block, a span has no third one between its ends.
  const bool held_out = is_held_out(first_row);
  if (is_held_out(first_row + rules_.span() - 1) != held_out) return;
  RingSample sample;
  sample.first_row = first_row;
  const uint64_t last = first_row + rules_.rows - 1;
  if (label_counts_.empty()) {
    sample.number = numbers_[place(last + rules_.horizon)];
    sample.last_number = numbers_[place(last)];
  } else {
    sample.label =
        label_of_window(std::span(labels_).subspan(place(first_row), rules_.rows), label_counts_);
  }
  (held_out ? held_out_ : training_).push_back(sample);
}

void RowRing::lay_out(const RingSample& sample, std::span<float> features) const {
  PACELINE_CHECK(sample.first_row + rows_max_ >= row_count_);
  lay_out_window(
      std::span(values_).subspan(place(sample.first_row) * columns_, rules_.rows * columns_),
      columns_, scale_, offset_, features);
}

}  // namespace paceline
