#include "runtime/data/reader.h"

#include <new>

#include "runtime/base/log.h"
#include "runtime/data/formats.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

struct Format {
  bool (*matches)(std::string_view file_name, ByteSpan content);
  Result<Dataset> (*read)(Bytes content, const ReadOptions& options);
};

// A text that the CSV reader would only misunderstand.
bool matches_arff(std::string_view file_name, ByteSpan) {
  return file_name.ends_with(".arff") || file_name.ends_with(".arff.gz");
}

Result<Dataset> refuse_arff(Bytes, const ReadOptions&) {
  return fail(Code::kUnsupported, "ARFF is not read; export it as CSV with a header");
}

constexpr Format kFormats[] = {
    {matches_idx, read_idx},
    {matches_arff, refuse_arff},
    {matches_csv, read_csv},
};

Result<Dataset> read_content(std::string_view file_name, Bytes content,
                             const ReadOptions& options) {
  for (const Format& format : kFormats)
    if (format.matches(file_name, content)) return format.read(std::move(content), options);
  return fail(Code::kUnsupported, "neither IDX nor a text table; export it as CSV with a header");
}

}  // namespace

Result<Dataset> read_dataset(const std::string& path, const ReadOptions& options) {
  const std::string_view file_name =
      std::string_view(path).substr(path.rfind('/') + 1);  // npos + 1 is 0
  try {
    PACELINE_ASSIGN(Bytes content, load_file(path, options.bytes_max));
    Result<Dataset> dataset = read_content(file_name, std::move(content), options);
    if (!dataset) return fail_in_file(path, dataset.error());
    for (const std::string& note : dataset->notes) log_info("%s: %s", path.c_str(), note.c_str());
    return dataset;
  } catch (const std::bad_alloc&) {
    // A file too large for a small board is the world's failure, not a broken invariant.
    return fail(Code::kResourceExhausted, "%s: does not fit into this machine's memory",
                path.c_str());
  }
}

}  // namespace paceline
