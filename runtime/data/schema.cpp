#include "runtime/data/schema.h"

#include <set>

#include "runtime/base/config.h"
#include "runtime/base/utf8.h"
#include "runtime/data/dataset.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

constexpr double kScaleMax = 1e30;
constexpr uint32_t kWindowRowsMax = 65'536;

void trim(std::string* text) {
  const size_t first = text->find_first_not_of(" \t\r\n");
  const size_t last = text->find_last_not_of(" \t\r\n");
  *text = first == std::string::npos ? std::string() : text->substr(first, last - first + 1);
}

Status check_names(const char* key, std::vector<std::string>* names) {
  std::set<std::string_view> seen;
  for (std::string& name : *names) {
    trim(&name);
    if (name.empty()) return fail(Code::kInvalidArgument, "run: data.%s holds an empty name", key);
    if (!seen.insert(name).second)
      return fail(Code::kInvalidArgument, "run: data.%s names %s twice", key,
                  quote_for_message(name).c_str());
  }
  return {};
}

Result<std::vector<float>> scaling(const char* key, const std::vector<double>& given,
                                   size_t column_count) {
  if (given.size() != 1 && given.size() != column_count)
    return fail(Code::kInvalidArgument,
                "run: data.%s has %zu numbers; give one, or one for each of the %zu columns", key,
                given.size(), column_count);
  return std::vector<float>(given.begin(), given.end());
}

Status read_rule(const std::string& text, DataSchema* schema) {
  if (text == "error")
    schema->missing = MissingRule::kError;
  else if (text == "skip")
    schema->missing = MissingRule::kSkip;
  else if (text == "mean")
    schema->missing = MissingRule::kMean;
  else
    return fail(Code::kInvalidArgument,
                "run: data.missing is %s, has to be \"error\", \"skip\" or \"mean\"",
                quote_for_message(text).c_str());
  return {};
}

Status read_sparse(ConfigSection* data, DataSchema* schema) {
  SparseRules& sparse = schema->sparse;
  data->read("features", &sparse.feature_count, 1, kSparseFeaturesMax);
  data->read("hash_bits", &sparse.hash_bits, 4, 24);
  data->read("non_zeros", &sparse.non_zeros_max, 1, kNonZerosMax);
  if (sparse.feature_count > 0 && sparse.hash_bits > 0)
    return fail(Code::kInvalidArgument,
                "run: data.features says that indices are taken as they are, data.hash_bits that "
                "they are hashed; leave one out");
  if (sparse.hash_bits > 0) sparse.feature_count = 1u << sparse.hash_bits;
  if (sparse.used() != (sparse.non_zeros_max > 0))
    return fail(Code::kInvalidArgument,
                "run: sparse rows need data.features or data.hash_bits, and data.non_zeros, the "
                "most values of a row that are not 0");
  if (!sparse.used()) return {};
  for (const char* key : {"columns", "label", "ignore", "missing", "missing_values", "window",
                          "time", "task", "scale", "offset"})
    if (data->has(key))
      return fail(Code::kInvalidArgument,
                  "run: data.%s is of tables with named columns, and data.%s says that rows are "
                  "sparse; leave one out",
                  key, sparse.hash_bits > 0 ? "hash_bits" : "features");
  return {};
}

// columns and label belong together; the rest means nothing without them.
Status check_together(const DataSchema& schema, bool has_rules) {
  if (schema.sparse.used()) return {};
  const bool any = schema.names_columns() || !schema.label.empty() || !schema.classes.empty();
  const bool all = schema.names_columns() && !schema.label.empty();
  if (any && !all)
    return fail(Code::kInvalidArgument,
                "run: [data] names some of columns, label and classes; give all three, or columns "
                "and label where the label is a number, or none");
  if (!any && has_rules)
    return fail(Code::kInvalidArgument,
                "run: [data] has rules for rows, but names no columns; give columns, label and "
                "classes");
  // A forecast's label is a later value of what may well be a feature.
  for (const std::string& column : schema.columns)
    if (column == schema.label && !schema.forecasts())
      return fail(Code::kInvalidArgument, "run: data.columns holds the label %s; take it out",
                  quote_for_message(column).c_str());
  return {};
}

Status read_time_unit(const std::string& unit, WindowRules* windows) {
  struct Unit {
    const char* name;
    double seconds;
  };
  for (const Unit& known : {Unit{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}})
    if (unit == known.name) {
      windows->time_unit_s = known.seconds;
      return {};
    }
  return fail(Code::kInvalidArgument,
              "run: data.time_unit is %s, has to be \"s\", \"ms\", \"us\" or \"ns\"",
              quote_for_message(unit).c_str());
}

Status read_windows(ConfigSection* data, DataSchema* schema) {
  WindowRules& windows = schema->windows;
  std::string task = "label", unit = "s";
  data->read("task", &task);
  data->read("horizon", &windows.horizon, 1, kWindowRowsMax);
  data->read("window", &windows.rows, 1, kWindowRowsMax);
  windows.stride = windows.rows;
  data->read("stride", &windows.stride, 1, kWindowRowsMax);
  data->read("time", &windows.time);
  data->read("time_unit", &unit);
  data->read("gap_max", &windows.gap_max, 0, 1e9);
  trim(&windows.time);
  PACELINE_TRY(read_time_unit(unit, &windows));
  if (task != "label" && task != "forecast")
    return fail(Code::kInvalidArgument, "run: data.task is %s, has to be \"forecast\", or left out",
                quote_for_message(task).c_str());
  if ((task == "forecast") != (windows.horizon > 0))
    return fail(Code::kInvalidArgument,
                "run: data.task = \"forecast\" and data.horizon, how many rows ahead, go together");
  return {};
}

// What only makes sense beside something else that is not there.
Status check_windows(ConfigSection* data, const DataSchema& schema) {
  const WindowRules& windows = schema.windows;
  for (const char* key : {"stride", "time", "time_unit", "gap_max"})
    if (!windows.used() && data->has(key))
      return fail(Code::kInvalidArgument,
                  "run: data.%s is of windows; give data.window, how many rows one has", key);
  if (windows.used() && !schema.names_columns())
    return fail(Code::kInvalidArgument,
                "run: [data] has windows, but names no columns; give columns and label");
  if (schema.forecasts() && !schema.label_is_number())
    return fail(Code::kInvalidArgument,
                "run: data.task = \"forecast\" is of a number; leave data.classes out");
  if (!windows.time.empty() && !data->has("gap_max"))
    return fail(Code::kInvalidArgument,
                "run: data.time needs data.gap_max, the seconds that neighbours may be apart");
  if (windows.time.empty() && data->has("time_unit"))
    return fail(Code::kInvalidArgument, "run: data.time_unit is of data.time; give that, too");
  if (windows.time.empty() &&
      windows.gap_max != static_cast<double>(static_cast<uint32_t>(windows.gap_max)))
    return fail(Code::kInvalidArgument,
                "run: data.gap_max is %g, but without data.time it counts rows that were left out",
                windows.gap_max);
  return {};
}

Status scale_label(double scale, double offset, bool given, DataSchema* schema) {
  if (given && !schema->label_is_number())
    return fail(
        Code::kInvalidArgument,
        "run: data.label_scale and data.label_offset are of numbers, and data.classes makes "
        "the label a class; leave the ones or the other out");
  schema->label_scale = static_cast<float>(scale);
  schema->label_offset = static_cast<float>(offset);
  if (schema->label_scale == 0)
    return fail(Code::kInvalidArgument,
                "run: data.label_scale is 0, so all targets are alike; give 1 / the label's "
                "standard deviation");
  return {};
}

// The mean is what x = 0 stands for.
Status check_means(const DataSchema& schema) {
  if (schema.missing != MissingRule::kMean) return {};
  if (schema.scale.size() != schema.columns.size() || schema.offset.size() != schema.columns.size())
    return fail(Code::kInvalidArgument,
                "run: data.missing = \"mean\" needs a scale and an offset for each column: the "
                "mean is -offset / scale");
  for (size_t i = 0; i < schema.columns.size(); ++i)
    if (schema.scale[i] == 0)
      return fail(Code::kInvalidArgument,
                  "run: data.scale of %s is 0, so it has no mean; leave the column out",
                  quote_for_message(schema.columns[i]).c_str());
  return {};
}

Status check_sparse_model(const SparseRules& sparse, uint64_t input_features, uint32_t entries) {
  if (sparse.used() != (entries > 0))
    return fail(Code::kInvalidArgument,
                sparse.used() ? "run: [data] has sparse rows, so the first layer has to be of type "
                                "\"sparse_dense\" with entries = %u"
                              : "run: a layer of type \"sparse_dense\" takes sparse rows; give "
                                "data.features = %u, or hash_bits, and non_zeros",
                sparse.used() ? sparse.feature_count : entries);
  if (!sparse.used()) return {};
  if (sparse.feature_count != entries)
    return fail(
        Code::kInvalidArgument,
        "run: [data] has %u features, but the first layer has entries = %u; make them equal",
        sparse.feature_count, entries);
  if (input_features != uint64_t{2} * sparse.non_zeros_max)
    return fail(Code::kInvalidArgument,
                "run: data.non_zeros is %u, so it has to be model.input = [2, %u]",
                sparse.non_zeros_max, sparse.non_zeros_max);
  return {};
}

}  // namespace

Status DataSchema::check_model(uint64_t input_features, uint32_t class_count, uint32_t output_count,
                               uint32_t sparse_entries) const {
  if (!reads_rows() && class_count == 0)
    return fail(Code::kInvalidArgument,
                "run: a model that gives numbers needs [data] with columns and label");
  PACELINE_TRY(check_sparse_model(sparse, input_features, sparse_entries));
  if (!reads_rows()) return {};
  if (sparse.used()) return check_label(class_count, output_count);
  if (windows.used() && columns.size() * uint64_t{windows.rows} != input_features)
    return fail(
        Code::kInvalidArgument,
        "run: windows of %u rows of %zu columns have %llu values, but model.input has %llu; "
        "give model.input = [%zu, %u]",
        windows.rows, columns.size(),
        static_cast<unsigned long long>(columns.size() * uint64_t{windows.rows}),
        static_cast<unsigned long long>(input_features), columns.size(), windows.rows);
  if (!windows.used() && columns.size() != input_features)
    return fail(Code::kInvalidArgument,
                "run: [data] names %zu columns, but model.input has %llu values; make them equal",
                columns.size(), static_cast<unsigned long long>(input_features));
  return check_label(class_count, output_count);
}

Status DataSchema::check_label(uint32_t class_count, uint32_t output_count) const {
  if (classes.empty() && class_count > 0)
    return fail(Code::kInvalidArgument,
                "run: [data] names no classes, but model.classes is %u; give them, or "
                "model.outputs = 1 and a loss of numbers",
                class_count);
  if (classes.size() != class_count && class_count == 0)
    return fail(Code::kInvalidArgument,
                "run: [data] names classes, but the model gives numbers (model.outputs); leave "
                "data.classes out");
  if (class_count == 0 && output_count != 1)
    return fail(Code::kInvalidArgument,
                "run: [data] has one label, but model.outputs is %u; make it 1", output_count);
  if (classes.size() != class_count)
    return fail(Code::kInvalidArgument,
                "run: [data] names %zu classes, but model.classes is %u; make them equal",
                classes.size(), class_count);
  return {};
}

Result<DataSchema> parse_data_schema(std::string_view toml) {
  PACELINE_ASSIGN(const Config config, Config::parse(toml, "run"));
  DataSchema schema;
  std::vector<double> scale = {1}, offset = {0};
  double label_scale = 1, label_offset = 0;
  std::string missing, bad_rows;
  std::vector<std::string> missing_values;
  ConfigSection data = config.section("data");
  data.read("columns", &schema.columns);
  data.read("label", &schema.label);
  data.read("classes", &schema.classes);
  data.read("label_scale", &label_scale, -kScaleMax, kScaleMax);
  data.read("label_offset", &label_offset, -kScaleMax, kScaleMax);
  data.read("ignore", &schema.ignored);
  data.read("scale", &scale, -kScaleMax, kScaleMax);
  data.read("offset", &offset, -kScaleMax, kScaleMax);
  data.read("missing", &missing);
  data.read("missing_values", &missing_values);
  data.read("bad_rows", &bad_rows);
  const bool scales_label = data.has("label_scale") || data.has("label_offset");
  const Status windows = read_windows(&data, &schema);
  const Status sparse = read_sparse(&data, &schema);
  PACELINE_TRY(data.finish());
  PACELINE_TRY(sparse);
  PACELINE_TRY(windows);

  trim(&schema.label);
  PACELINE_TRY(check_names("columns", &schema.columns));
  PACELINE_TRY(check_names("classes", &schema.classes));
  PACELINE_TRY(check_names("ignore", &schema.ignored));
  PACELINE_TRY(check_together(schema, !missing.empty() || !missing_values.empty() ||
                                          !bad_rows.empty() || !schema.ignored.empty()));
  PACELINE_TRY(check_windows(&data, schema));
  PACELINE_TRY(scale_label(label_scale, label_offset, scales_label, &schema));
  PACELINE_ASSIGN(schema.scale, scaling("scale", scale, schema.columns.size()));
  PACELINE_ASSIGN(schema.offset, scaling("offset", offset, schema.columns.size()));
  if (!missing.empty()) PACELINE_TRY(read_rule(missing, &schema));
  for (std::string& text : missing_values) trim(&text);
  if (!missing_values.empty()) schema.missing_values = std::move(missing_values);
  if (!bad_rows.empty() && bad_rows != "error" && bad_rows != "skip")
    return fail(Code::kInvalidArgument, "run: data.bad_rows is %s, has to be \"error\" or \"skip\"",
                quote_for_message(bad_rows).c_str());
  schema.skip_bad_rows = bad_rows == "skip";
  PACELINE_TRY(check_means(schema));
  return schema;
}

}  // namespace paceline
