#include "server/control_set.h"

#include <numeric>

#include "runtime/data/reader.h"

namespace paceline {

namespace {
constexpr size_t kBatch = 250;
}  // namespace

Result<ControlSet> open_control_set(const std::string& file, const std::string& label_file,
                                    const RunSpec& run, const DataSchema& schema) {
  ReadOptions read;
  if (schema.reads_rows()) read.schema = &schema;
  read.label_file = label_file;
  ControlSet set;
  PACELINE_ASSIGN(set.dataset, read_dataset(file, read));
  if (set.dataset.feature_count() != run.model.input_features())
    return fail(Code::kInvalidArgument, "%s: rows have %zu values, the model takes %llu",
                file.c_str(), set.dataset.feature_count(),
                static_cast<unsigned long long>(run.model.input_features()));
  set.dataset.set_scaling(schema.scale, schema.offset);
  set.dataset.set_number_scaling(schema.label_scale, schema.label_offset);
  PACELINE_ASSIGN(set.trainer, make_trainer(run.model, kBatch, "auto", run.training.loss));
  set.rows.resize(set.dataset.row_count());
  std::iota(set.rows.begin(), set.rows.end(), 0u);
  return set;
}

}  // namespace paceline
