#include "runtime/worker/local_data.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/log.h"
#include "runtime/data/reader.h"
#include "runtime/worker/live_data.h"

namespace paceline {

namespace {

Status read_rows(const DataSchema* schema, LocalData* data) {
  const LocalDataOptions& source = data->source;
  ReadOptions read;
  read.label_file = source.label_file;
  read.label_column = source.label_column;
  read.ignored_columns = source.ignored_columns;
  read.schema = schema;
  data->dataset = Dataset();  // its memory is free before the new rows take theirs
  data->split = {};
  PACELINE_ASSIGN(data->dataset, read_dataset(source.data_file, read));
  Dataset& dataset = data->dataset;
  if (source.has_shard) {
    // Rows that are labelled with numbers are dealt out as if of one class.
    const std::vector<int32_t> alike(dataset.numbers().size());
    const std::span<const int32_t> labels = alike.empty() ? dataset.labels() : alike;
    PACELINE_ASSIGN(std::vector<uint32_t> rows,
                    dataset.windows().used()
                        ? shard_windows(dataset, source.shard)
                        : shard_rows(labels, std::max(dataset.class_count(), 1u), source.shard));
    dataset.keep(rows);
  }
  if (dataset.row_count() == 0)
    return fail(Code::kInvalidArgument, "%s: no rows to train on", source.data_file.c_str());
  if (!dataset.has_labels())
    return fail(Code::kInvalidArgument, "%s: no labels; give --labels FILE or --label-column NAME",
                source.data_file.c_str());
  data->split = split_hold_out(dataset);
  log_info("%zu training %s, %zu held out, from %s", data->split.training.size(),
           dataset.windows().used() ? "windows" : "rows", data->split.held_out.size(),
           source.data_file.c_str());
  return {};
}

}  // namespace

std::string forecast_text(const ForecastScore& score) {
  if (score.windows == 0) return {};
  return format_text("forecast off by %.6g, same as last by %.6g (rmse, %zu held-out windows)",
                     score.rmse, score.rmse_same_as_last, score.windows);
}

ForecastScore forecast_score(const EvaluationCounts& counts, float label_scale,
                             double last_squares) {
  if (counts.rows == 0) return {};
  const auto rows = static_cast<double>(counts.rows);
  const double squares = static_cast<double>(counts.squares_fixed16) / 65536;
  return {static_cast<size_t>(counts.rows),
          std::sqrt(squares / rows) / std::abs(static_cast<double>(label_scale)),
          std::sqrt(last_squares / rows)};
}

Result<std::shared_ptr<LocalData>> open_local_data(const LocalDataOptions& options) {
  auto data = std::make_shared<LocalData>();
  data->source = options;
  if (options.data_file == "-") {
    if (!options.label_file.empty() || options.has_shard)
      return fail(Code::kInvalidArgument,
                  "--data - is a table of its own; leave --labels and --shard out");
    data->live = std::make_shared<LiveData>(options.label_column, options.ring_rows_max);
    return data;
  }
  data->unread = read_rows(nullptr, data.get());
  if (data->unread.ok()) return data;
  ReadOptions read;
  read.label_column = options.label_column;
  read.ignored_columns = options.ignored_columns;
  if (!options.label_file.empty() || !has_columns(options.data_file, read).ok())
    return fail(std::move(data->unread));
  log_warning("%s; that is in order if the run names its columns", data->unread.message().c_str());
  return data;
}

Status apply_schema(const DataSchema& schema, LocalData* data) {
  data->forecast = {};
  if (data->live) return data->live->start(schema);
  if (schema.reads_rows() && !data->source.data_file.empty()) {
    data->unread = read_rows(&schema, data);
    PACELINE_TRY(data->unread);
  }
  PACELINE_TRY(data->unread);
  if (schema.windows.used() && !data->dataset.windows().used())
    return fail(Code::kInvalidArgument, "the run wants windows of rows, and these are no table");
  if (data->dataset.sparse_rows() != nullptr && !schema.sparse.used())
    return fail(Code::kInvalidArgument,
                "the rows are sparse (LibSVM), and the run's [data] says neither features nor "
                "hash_bits");
  const size_t features = data->dataset.feature_count() / data->dataset.windows().rows;
  if (schema.scale.size() > 1 && schema.scale.size() != features)
    return fail(Code::kInvalidArgument, "the run scales %zu columns, the rows have %zu",
                schema.scale.size(), features);
  data->dataset.set_scaling(schema.scale, schema.offset);
  data->dataset.set_number_scaling(schema.label_scale, schema.label_offset);
  return {};
}

}  // namespace paceline
