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

constexpr Format kFormats[] = {
    {matches_idx, read_idx},
    {matches_arff, read_arff},
    {matches_libsvm, read_libsvm},
    {matches_csv, read_csv},
};

Result<Dataset> read_content(std::string_view file_name, Bytes content,
                             const ReadOptions& options) {
  for (const Format& format : kFormats)
    if (format.matches(file_name, content)) return format.read(std::move(content), options);
  return fail(Code::kUnsupported, "neither IDX nor a text table; export it as CSV with a header");
}

std::string_view name_in(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0
}

}  // namespace

Result<Dataset> read_dataset(const std::string& path, const ReadOptions& options) {
  const std::string_view file_name = name_in(path);
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

Result<bool> has_sparse_rows(const std::string& path) {
  PACELINE_ASSIGN(const Bytes content, load_file(path, ReadOptions().bytes_max));
  return matches_libsvm(name_in(path), content);
}

Status has_columns(const std::string& path, const ReadOptions& options) {
  PACELINE_ASSIGN(const Bytes content, load_file(path, options.bytes_max));
  if (matches_libsvm(name_in(path), content)) return {};
  if (const Status status = check_table_columns(content, options); !status.ok())
    return fail_in_file(path, status);
  return {};
}

}  // namespace paceline
