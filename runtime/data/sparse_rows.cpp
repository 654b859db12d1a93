#include "runtime/data/sparse_rows.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/random.h"

namespace paceline {

std::optional<uint32_t> SparseRules::place_of(uint32_t index) const {
  // The upper bits of a hash, so that indices with a stride of a power of two don't meet.
  if (hash_bits > 0) return static_cast<uint32_t>(hash64(index) >> (64 - hash_bits));
  if (index == 0 || index > feature_count) return std::nullopt;
  return index - 1;
}

void lay_out_sparse(std::span<const SparseEntry> row, std::span<float> features) {
  const size_t room = features.size() / 2;
  PACELINE_CHECK(row.size() <= room);
  std::ranges::fill(features, 0.0f);
  for (size_t i = 0; i < row.size(); ++i) {
    features[i] = static_cast<float>(row[i].place);
    features[room + i] = row[i].value;
  }
}

std::span<const SparseEntry> SparseRows::row(size_t index) const {
  PACELINE_CHECK(index < ends_.size());
  const size_t begin = index == 0 ? 0 : ends_[index - 1];
  return std::span(entries_).subspan(begin, ends_[index] - begin);
}

size_t SparseRows::bytes() const {
  return ends_.capacity() * sizeof(ends_[0]) + entries_.capacity() * sizeof(entries_[0]);
}

void SparseRows::add(std::span<const SparseEntry> row) {
  PACELINE_CHECK(row.size() <= UINT32_MAX - entries_.size());
  entries_.insert(entries_.end(), row.begin(), row.end());
  ends_.push_back(static_cast<uint32_t>(entries_.size()));
}

void SparseRows::shrink_to_fit() {
  ends_.shrink_to_fit();
  entries_.shrink_to_fit();
}

}  // namespace paceline
