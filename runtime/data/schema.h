// What a run says of its tables: which columns, in which order and on which scale, and the classes
// by name. It travels with the run's text, so every board counts alike.
//
//   [data]
//   columns = ["ax", "ay", "az", "sound"]   # features by name, in the model's order
//   label = "state"
//   classes = ["off", "idle", "busy"]       # class 0 is the first; without, the label is a number:
//   label_scale = 0.08        # the target is number * label_scale + label_offset, in float32
//   label_offset = -1.5
//   ignore = ["time"]         # known, and no feature; other columns are left out, too
//   # x = value * scale + offset, in float32; one for all columns, or one a column
//   scale = [12.5, 12.5, 9.0, 4.0]
//   offset = [0, 0, -1, -0.4]
//   missing = "skip"          # a row with a missing value: "error", "skip", "mean"
//   missing_values = ["", "NA", "-200"]  # what stands where a value is missing
//   bad_rows = "error"        # a row that can't be read: "error", "skip"
//   window = 64               # a sample is so many rows, [columns][rows]; without, it is one
//   stride = 32               # rows from one window to the next; without, as many as the window's
//   time = "clock"            # a column with the rows' times, as time_text.h reads them
//   time_unit = "ms"          # of times that are numbers: "s", "ms", "us", "ns"
//   gap_max = 0.5             # seconds between neighbours; without `time` left-out rows between
//   task = "forecast"         # the label is the number that stands `horizon` rows later
//   horizon = 24
//
// Sparse rows (LibSVM) have numbers in place of names:
//
//   features = 123            # indices 1 to 123; or hash_bits = 18: any, hashed to 2^18 places
//   non_zeros = 14            # the most that a row has; the model's input is [2, 14]
//   classes = ["-1", "+1"]    # without, the label is a number
//
// Without `columns` a file's rows are taken as they stand, and only one scale and offset may be
// given.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/sparse_rows.h"
#include "runtime/data/windows.h"

namespace paceline {

enum class MissingRule : uint8_t {
  kError,
  kSkip,  // the row is left out and counted
  kMean,  // -offset / scale stands in: the mean of the sample that the scale was made from
};

struct DataSchema {
  std::vector<std::string> columns;  // empty: as the file has them
  std::string label;
  std::vector<std::string> classes;  // none: the label is a number
  float label_scale = 1;
  float label_offset = 0;
  std::vector<std::string> ignored;
  std::vector<float> scale = {1};  // one, or one a column
  std::vector<float> offset = {0};
  MissingRule missing = MissingRule::kError;
  std::vector<std::string> missing_values = {"", "NA", "N/A", "NaN", "nan", "null", "?"};
  bool skip_bad_rows = false;
  WindowRules windows;
  SparseRules sparse;

  bool names_columns() const { return !columns.empty(); }
  // Whether rows are read as the run says, not as their file stands.
  bool reads_rows() const { return names_columns() || sparse.used(); }
  bool label_is_number() const { return reads_rows() && classes.empty(); }
  bool forecasts() const { return windows.horizon > 0; }
  // Errors: kInvalidArgument where a model of so many inputs and classes (0: it gives numbers)
  // can't take such rows.
  //   sparse_entries  features of its first layer, where that takes sparse rows; else 0
  Status check_model(uint64_t input_features, uint32_t class_count, uint32_t output_count,
                     uint32_t sparse_entries = 0) const;

 private:
  Status check_label(uint32_t class_count, uint32_t output_count) const;
};

// The table [data] of a run; other tables are left to other readers. Errors: kInvalidArgument with
// line, column and the nearest key.
Result<DataSchema> parse_data_schema(std::string_view toml);

}  // namespace paceline
