// Which rows of a common data set a worker holds, and which of its own it keeps back for
// evaluation.
//
// For demos, tests and experiments on one machine; in the field every board has a file of its own.
// Pure functions of (labels, options): every worker computes the same split and takes its part of
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"

namespace paceline {

struct ShardOptions {
  uint32_t index = 0;  // this worker, < count
  uint32_t count = 1;
  // 0: IID. Otherwise label skew: for each class the shares of the workers are drawn from a
  // symmetric Dirichlet(alpha) (Hsu, Qi, Brown, 2019); small alpha = few classes per worker.
  double dirichlet_alpha = 0;
  uint64_t seed = 1;
  // Rows from this one on are left out first (a control set at the end of the file).
  uint64_t row_count_max = UINT64_MAX;
};

// "2/4" (IID), "2/4:dirichlet=0.5,seed=7,rows=55000". Index counts from 0. Errors: kInvalidArgument
// with the form.
Result<ShardOptions> parse_shard(std::string_view text);

// Row numbers of shard options.index, ascending. Shards are disjoint and cover all rows used.
Result<std::vector<uint32_t>> shard_rows(std::span<const int32_t> labels, uint32_t class_count,
                                         const ShardOptions& options);

struct HoldOut {
  std::vector<uint32_t> training;
  std::vector<uint32_t> held_out;
};
// The last 10 % of the rows in order, at least 20, are held out; with fewer than 40 rows none are.
HoldOut split_hold_out(size_t row_count);
// The same of samples; training windows that share a row with one that is held out are dropped.
HoldOut split_hold_out(const Dataset& samples);

// The samples of shard options.index where they are windows: a block of time for each, and what
// reaches over from the block before is dropped. Errors: kInvalidArgument for a skewed split.
Result<std::vector<uint32_t>> shard_windows(const Dataset& windows, const ShardOptions& options);

}  // namespace paceline
