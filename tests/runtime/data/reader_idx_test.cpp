#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <limits>

#include "runtime/base/random.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::all_features;
using test::contains;
using test::idx;
using test::pick;
using test::read_error;
using test::TempFolder;

template <class T>
Bytes big_endian(const std::vector<T>& values) {
  Bytes bytes;
  for (const T value : values) {
    const auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
    bytes.insert(bytes.end(), raw.rbegin(), raw.rend());
  }
  return bytes;
}

Dataset read_ok(const std::string& path, const ReadOptions& options = {}) {
  Result<Dataset> dataset = read_dataset(path, options);
  REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
  return std::move(*dataset);
}

}  // namespace

TEST_SUITE("data/reader_idx") {
  TEST_CASE("read: every element type in 1 to 4 dimensions") {
    const TempFolder folder;
    const auto features = [&](uint8_t type, const std::vector<uint32_t>& dimensions,
                              const Bytes& v) {
      return all_features(read_ok(folder.write("f.idx", idx(type, dimensions, v))));
    };
    CHECK(features(0x08, {2}, big_endian<uint8_t>({0, 255})) == std::vector<float>{0, 255});
    CHECK(features(0x09, {1, 2}, big_endian<int8_t>({-128, 127})) == std::vector<float>{-128, 127});
    CHECK(features(0x0B, {2, 1, 1}, big_endian<int16_t>({-2, 258})) == std::vector<float>{-2, 258});
    CHECK(features(0x0C, {1, 1, 2, 1}, big_endian<int32_t>({-2, 65538})) ==
          std::vector<float>{-2, 65538});
    CHECK(features(0x0D, {2, 1}, big_endian<float>({-1.5f, 1e30f})) ==
          std::vector<float>{-1.5f, 1e30f});
    CHECK(features(0x0E, {2, 1}, big_endian<double>({-1.5, 0.25})) ==
          std::vector<float>{-1.5f, 0.25f});
    const Dataset cube = read_ok(folder.write("f.idx", idx(0x08, {2, 3, 4, 5}, Bytes(120))));
    CHECK(cube.row_count() == 2);
    CHECK(std::vector<uint32_t>(cube.shape().begin(), cube.shape().end()) ==
          std::vector<uint32_t>{3, 4, 5});
  }

  TEST_CASE("read: labels of any whole-number type; the largest sets the class count") {
    const TempFolder folder;
    ReadOptions options;
    options.label_file =
        folder.write("y.idx.gz", test::gzip(idx(0x0C, {3}, big_endian<int32_t>({4, 0, 2}))));
    const std::string path = folder.write("x.idx", idx(0x08, {3, 2}, Bytes(6)));
    const Dataset dataset = read_ok(path, options);
    CHECK(dataset.class_count() == 5);
    CHECK(std::vector<int32_t>(dataset.labels().begin(), dataset.labels().end()) ==
          std::vector<int32_t>{4, 0, 2});
    options.class_count = 10;
    CHECK(read_ok(path, options).class_count() == 10);
    options.class_count = 4;
    CHECK(contains(read_error(path, options), "label 4 at index 0; classes are numbered 0 to 3"));
  }

  TEST_CASE("read: label files that are no list of classes name the fault and both files") {
    const TempFolder folder;
    const std::string path = folder.write("x.idx", idx(0x08, {3, 2}, Bytes(6)));
    ReadOptions options;
    const auto error_with = [&](const Bytes& labels) {
      options.label_file = folder.write("y.idx", labels);
      const std::string error = read_error(path, options);
      CHECK(contains(error, path + ": " + options.label_file));
      return error;
    };
    CHECK(contains(error_with(idx(0x08, {2}, Bytes(2))), "2 labels for 3 rows"));
    CHECK(contains(error_with(idx(0x08, {3, 1}, Bytes(3))), "one dimension, the file has 3 x 1"));
    CHECK(contains(error_with(idx(0x0D, {3}, Bytes(12))), "whole numbers, the file holds float32"));
    CHECK(contains(error_with(idx(0x09, {3}, big_endian<int8_t>({0, -1, 1}))),
                   "label -1 at index 1"));
    CHECK(contains(error_with(idx(0x0C, {3}, big_endian<int32_t>({0, 1, 65536}))),
                   "label 65536 at index 2"));
    options.label_file = folder.file("none");
    CHECK(contains(read_error(path, options), "No such file"));
  }

  TEST_CASE("read: no header makes the reader allocate, overflow or stop") {
    const TempFolder folder;
    const auto error_of = [&](const std::vector<uint32_t>& dimensions, size_t payload) {
      return read_error(folder.write("f.idx", idx(0x0E, dimensions, Bytes(payload))));
    };
    constexpr uint32_t kMax = UINT32_MAX;
    CHECK(contains(error_of({kMax, kMax, kMax, kMax}, 8), "a row must have"));
    CHECK(contains(error_of({0, kMax, kMax, kMax}, 0), "a row must have"));
    CHECK(contains(error_of({kMax, 1, 1, 1}, 8), "cut off"));
    CHECK(contains(error_of({1, 1u << 20, 1, 1}, 8), "cut off"));
    CHECK(contains(error_of({3, 0}, 0), "a row must have"));
    CHECK(contains(error_of({1, 1}, 9), "has bytes after its end"));
    CHECK(contains(error_of({1, 1, 1, 1, 1}, 8), "5 dimensions; 1 to 4"));
    CHECK(contains(error_of({}, 8), "0 dimensions; 1 to 4"));
  }

  TEST_CASE("read: the first value that is not finite is named, unless it is allowed") {
    const TempFolder folder;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::string path =
        folder.write("f.idx", idx(0x0D, {2, 2}, big_endian<float>({1, 2, 3, nan})));
    CHECK(contains(read_error(path), "row 1 (from 0), value 1 is NaN"));
    const double infinity = std::numeric_limits<double>::infinity();
    CHECK(contains(
        read_error(folder.write("g.idx", idx(0x0E, {1, 1}, big_endian<double>({infinity})))),
        "value 0 is infinite"));
    ReadOptions options;
    options.allow_non_finite = true;
    CHECK(read_error(path, options) == "");
  }

  TEST_CASE("read: random truncations and changed bytes of plain and packed files never crash") {
    const TempFolder folder;
    Random random(test::seed(), 1);
    Bytes values(40 * 6);
    for (auto& value : values) value = static_cast<std::byte>(random.next());
    const Bytes plain = idx(0x0B, {10, 3, 4}, values);
    const Bytes packed = test::gzip(plain);
    for (int i = 0; i < 600; ++i) {
      Bytes damaged = i % 2 == 0 ? plain : packed;
      const size_t changes = pick(random, 4);
      // Half of the changes hit the header, where they matter most.
      for (size_t k = 0; k < changes; ++k)
        damaged[pick(random, k % 2 == 0 ? 20 : damaged.size())] =
            static_cast<std::byte>(random.next());
      if (changes == 0) damaged.resize(pick(random, damaged.size()));
      const Result<Dataset> dataset = read_dataset(folder.write("f.idx", damaged), {});
      if (dataset) CHECK(all_features(*dataset).size() <= damaged.size() * 1100);
    }
  }
}

}  // namespace paceline
