// The file formats that read_dataset() knows: each is one reader_*.cpp and one line of the list in
// reader.cpp.
//
// A reader gets the whole content, unpacked and not empty, and may hold on to it. Its errors name
// the place in the file; the caller adds the file's name.
#pragma once

#include <string_view>

#include "runtime/base/bytes.h"
#include "runtime/data/reader.h"

namespace paceline {

// By the two zero bytes at the start or, so that a damaged file is named rightly, by the file's
// name.
bool matches_idx(std::string_view file_name, ByteSpan content);
Result<Dataset> read_idx(Bytes content, const ReadOptions& options);

// "1 3:0.5 7:1", by the first row or by the file's name.
bool matches_libsvm(std::string_view file_name, ByteSpan content);
Result<Dataset> read_libsvm(Bytes content, const ReadOptions& options);

// By "@relation", or by the file's name.
bool matches_arff(std::string_view file_name, ByteSpan content);
Result<Dataset> read_arff(Bytes content, const ReadOptions& options);

// Everything that is text.
bool matches_csv(std::string_view file_name, ByteSpan content);
Result<Dataset> read_csv(Bytes content, const ReadOptions& options);
// Whether the columns of `options` are there; rows are not read.
Status check_table_columns(ByteSpan content, const ReadOptions& options);

}  // namespace paceline
