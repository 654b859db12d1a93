// A board's own rows, and how they are read again when a run says by name which columns it wants.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/schema.h"
#include "runtime/data/shard.h"

namespace paceline {

struct LocalDataOptions {
  std::string data_file;
  std::string label_file;
  std::string label_column;  // in this board's file, whatever the run calls it
  std::vector<std::string> ignored_columns;
  bool has_shard = false;  // take one part of a common file; for demos and experiments
  ShardOptions shard;
};

struct LocalData {
  Dataset dataset;
  HoldOut split;
  LocalDataOptions source;  // without a file: rows made in memory, which no schema changes
  // Why the file can't be read by itself; a run that names its columns may still read it.
  Status unread;
};

// Reads the file as it stands. Errors: a file that is no table and no images at all, or columns
// that it has not. What only its cells are at fault for is kept in `unread`.
Result<std::shared_ptr<LocalData>> open_local_data(const LocalDataOptions& options);

// Reads the file again, by the columns and classes that `schema` names; sets the scale.
Status apply_schema(const DataSchema& schema, LocalData* data);

}  // namespace paceline
