// Rows of which only what is not 0 is held, for features by the million: compressed sparse rows.
//
// A net gets such a row as [2][non_zeros_max] values: places first, then what stands there, and
// zeros behind. A place is a whole number below kSparseFeaturesMax, so float32 holds it exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace paceline {

inline constexpr uint32_t kSparseFeaturesMax = 1u << 24;
inline constexpr uint32_t kNonZerosMax = 65'536;  // of a row

// How a run counts the features of such rows.
struct SparseRules {
  uint32_t feature_count = 0;  // 0: rows are dense
  uint32_t hash_bits = 0;      // indices are hashed to feature_count = 2^hash_bits; 0: they are not
  uint32_t non_zeros_max = 0;  // of a row

  bool used() const { return feature_count > 0; }
  // Where the feature that a file calls `index`, from 1, lies; nullopt beyond feature_count.
  std::optional<uint32_t> place_of(uint32_t index) const;
};

struct SparseEntry {
  uint32_t place;
  float value;
};

// Writes a row to `features` [2][features.size() / 2], which has room for it.
void lay_out_sparse(std::span<const SparseEntry> row, std::span<float> features);

class SparseRows {
 public:
  size_t row_count() const { return ends_.size(); }
  size_t entry_count() const { return entries_.size(); }
  // Ascending by place.
  std::span<const SparseEntry> row(size_t index) const;
  size_t bytes() const;

  void add(std::span<const SparseEntry> row);
  void shrink_to_fit();

 private:
  std::vector<uint32_t> ends_;  // of each row, in the entries
  std::vector<SparseEntry> entries_;
};

}  // namespace paceline
