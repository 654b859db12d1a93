// Any bytes: read_libsvm() gives an error, or rows that a batch can be made of.
//
// The first byte picks what the run says of them.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/check.h"
#include "runtime/data/describe.h"
#include "runtime/data/formats.h"

namespace {

using namespace paceline;

void check_rows(const Dataset& dataset, const SparseRules& rules) {
  const SparseRows* rows = dataset.sparse_rows();
  PACELINE_CHECK(rows != nullptr && rows->row_count() == dataset.row_count());
  std::vector<float> features(dataset.feature_count());
  std::vector<int32_t> label(1);
  for (uint32_t i = 0; i < rows->row_count(); ++i) {
    uint32_t next = 0;
    for (const SparseEntry& entry : rows->row(i)) {
      PACELINE_CHECK(entry.place >= next && std::isfinite(entry.value));
      PACELINE_CHECK(!rules.used() || entry.place < rules.feature_count);
      next = entry.place + 1;
    }
    dataset.gather({&i, 1}, features, label);
  }
  PACELINE_CHECK(!describe(dataset).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ByteSpan content(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  matches_libsvm("rows", content);
  DataSchema schema;
  schema.sparse = {1u << 5, (data[0] & 1u) != 0 ? 5u : 0u, 3};
  if ((data[0] & 2) != 0) schema.classes = {"-1", "+1"};
  schema.skip_bad_rows = (data[0] & 4) != 0;
  for (const bool by_run : {false, true}) {
    ReadOptions options;
    if (by_run) options.schema = &schema;
    const Result<Dataset> dataset = read_libsvm(Bytes(content.begin(), content.end()), options);
    if (dataset) check_rows(*dataset, by_run ? schema.sparse : SparseRules());
  }
  return 0;
}
