// Helpers of the data tests: files made on the fly, and the folder of real ones.
#pragma once

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "runtime/data/dataset.h"
#include "runtime/data/reader.h"

namespace paceline::test {

inline Bytes bytes_of(std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Uniform below `bound`, as a size.
inline size_t pick(Random& random, size_t bound) {
  return static_cast<size_t>(random.below(bound));
}

// One gzip member.
inline Bytes gzip(ByteSpan content) {
  z_stream stream{};
  PACELINE_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes packed(deflateBound(&stream, static_cast<uLong>(content.size())) + 64);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  PACELINE_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  return packed;
}

// An IDX file: `values` are already big-endian.
inline Bytes idx(uint8_t type, const std::vector<uint32_t>& dimensions, ByteSpan values) {
  ByteWriter writer;
  writer.put(uint16_t{0});
  writer.put(type);
  writer.put(static_cast<uint8_t>(dimensions.size()));
  for (const uint32_t length : dimensions) writer.put(__builtin_bswap32(length));
  writer.put_bytes(values);
  return writer.take();
}

// All features of all rows, as a batch would get them.
inline std::vector<float> all_features(const Dataset& dataset) {
  std::vector<uint32_t> rows(dataset.row_count());
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<float> features(rows.size() * dataset.feature_count());
  std::vector<int32_t> labels(rows.size());
  dataset.gather(rows, features, labels);
  return features;
}

inline std::vector<size_t> class_counts(const Dataset& dataset) {
  std::vector<size_t> counts(dataset.class_count());
  for (const int32_t label : dataset.labels()) ++counts[static_cast<size_t>(label)];
  return counts;
}

// Message of the error, or "" where the file was read.
inline std::string read_error(const std::string& path, const ReadOptions& options = {}) {
  const Result<Dataset> dataset = read_dataset(path, options);
  return dataset ? std::string() : dataset.error().to_string();
}

// Path of a real file below PACELINE_TEST_DATA, or "" and a line that says so.
inline std::string real_file(const std::string& name) {
  const char* folder = std::getenv("PACELINE_TEST_DATA");
  if (folder == nullptr || *folder == '\0') {
    std::printf("skipped: no data (PACELINE_TEST_DATA is not set)\n");
    return {};
  }
  return std::string(folder) + "/" + name;
}

}  // namespace paceline::test
