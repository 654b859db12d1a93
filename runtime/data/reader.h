// Data sets from files. Every file is taken to be hostile or broken until it has been read.
//
// Errors name the file, the place in it and what to do, in one line: the caller prints it and
// exits 2. Nothing is allocated by the word of a header alone: it is held against the bytes that
// are there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/data/dataset.h"
#include "runtime/data/schema.h"

namespace paceline {

struct ReadOptions {
  // Labels in a file of their own (IDX). Empty: the label is a column (CSV).
  std::string label_file;
  // CSV: name of the label column. Empty: the last column.
  std::string label_column;
  // CSV: columns that are no features (a time, a serial number).
  std::vector<std::string> ignored_columns;
  // CSV: which columns and classes a run names. Null, or one that names none: as the file has them.
  const DataSchema* schema = nullptr;
  // With a schema: a file without the label column will do. Only for who asks no labels.
  bool label_optional = false;
  // A label from this one on is an error. 0: the largest label + 1.
  uint32_t class_count = 0;
  uint64_t bytes_max = uint64_t{4} << 30;
  // IDX float values that are NaN or infinite: an error naming the first, unless allowed here.
  bool allow_non_finite = false;
};

// The kind is taken from the content (IDX magic, gzip magic, the first row of LibSVM) and, for
// text, the name; .gz is opened transparently. Directories are not searched.
Result<Dataset> read_dataset(const std::string& path, const ReadOptions& options);

// Whether the rows of `path` are sparse (LibSVM). Errors: kNotFound, kIo, kCorrupt.
Result<bool> has_sparse_rows(const std::string& path);

// Whether a run may make sense of `path`: it is LibSVM, or a table with a header that has the
// columns of `options`. Its rows are not read. Errors: as read_dataset().
Status has_columns(const std::string& path, const ReadOptions& options);

}  // namespace paceline
