// A board's own rows, and how they are read again when a run says by name which columns it wants.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/schema.h"
#include "runtime/data/shard.h"
#include "runtime/train/trainer.h"

namespace paceline {

class LiveData;

struct LocalDataOptions {
  std::string data_file;            // "-": standard input, while the worker trains
  uint32_t ring_rows_max = 65'536;  // of those: the newest that are held
  std::string label_file;
  std::string label_column;  // in this board's file, whatever the run calls it
  std::vector<std::string> ignored_columns;
  bool has_shard = false;  // take one part of a common file; for demos and experiments
  ShardOptions shard;
};

// How far a forecast is off over the evaluated windows, and how far it is to say that nothing
// changes: root mean square errors in the label's units.
struct ForecastScore {
  size_t windows = 0;  // 0: nothing was evaluated yet
  double rmse = 0;
  double rmse_same_as_last = 0;
};
// "forecast off by 24.1, same as last by 26.0 (rmse, 512 held-out windows)"; empty without any.
std::string forecast_text(const ForecastScore& score);
//   last_squares  summed over the evaluated windows, in the label's units
ForecastScore forecast_score(const EvaluationCounts& counts, float label_scale,
                             double last_squares);

struct LocalData {
  Dataset dataset;
  HoldOut split;
  std::shared_ptr<LiveData> live;  // in place of both where rows come while the worker trains
  LocalDataOptions source;         // without a file: rows made in memory, which no schema changes
  // Why the file can't be read by itself; a run that names its columns may still read it.
  Status unread;
  ForecastScore forecast;  // of the newest evaluation, where the run forecasts
};

// Reads the file as it stands. Errors: a file that is no table and no images at all, or columns
// that it has not. What only its cells are at fault for is kept in `unread`.
Result<std::shared_ptr<LocalData>> open_local_data(const LocalDataOptions& options);

// Reads the file again, by the columns and classes that `schema` names; sets the scale.
Status apply_schema(const DataSchema& schema, LocalData* data);

}  // namespace paceline
