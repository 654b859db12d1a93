// Any text: read_csv() and read_arff() give an error, or rows of finite numbers with labels in
// range.
//
// The first byte picks what the run says of it.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "runtime/base/check.h"
#include "runtime/data/describe.h"
#include "runtime/data/formats.h"

namespace {

using namespace paceline;

void check_rows(const Dataset& dataset) {
  std::vector<float> features(dataset.feature_count());
  std::vector<int32_t> label(1);
  for (uint32_t i = 0; i < dataset.row_count(); ++i) {
    dataset.gather({&i, 1}, features, label);
    for (const float feature : features) PACELINE_CHECK(std::isfinite(feature));
  }
  PACELINE_CHECK(!describe(dataset).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan content(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  DataSchema schema;
  schema.columns = {"a", "b=x"};
  schema.label = "c";
  if ((data[0] & 1) != 0) schema.classes = {"x", "y"};
  if ((data[0] & 2) != 0) schema.missing = MissingRule::kSkip;
  if ((data[0] & 4) != 0) {
    schema.missing = MissingRule::kMean;
    schema.scale = {2, 2};
    schema.offset = {-1, 0};
  }
  schema.skip_bad_rows = (data[0] & 8) != 0;
  for (const bool by_run : {false, true}) {
    ReadOptions options;
    if (by_run) options.schema = &schema;
    for (const auto read : {read_csv, read_arff}) {
      const Result<Dataset> dataset = read(Bytes(content.begin(), content.end()), options);
      if (dataset) check_rows(*dataset);
    }
  }
  return 0;
}
