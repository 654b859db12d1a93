#include "runtime/data/dataset.h"

#include <doctest/doctest.h>

#include "runtime/base/random.h"
#include "runtime/data/describe.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"

namespace paceline {

namespace {

using test::all_features;
using test::contains;

template <class T>
Dataset dataset_of(ElementType type, const std::vector<T>& values, std::vector<uint32_t> shape,
                   std::vector<int32_t> labels, uint32_t class_count) {
  const auto raw = std::as_bytes(std::span(values));
  return Dataset(type, Bytes(raw.begin(), raw.end()), std::move(shape), std::move(labels),
                 class_count);
}

}  // namespace

TEST_SUITE("data/dataset") {
  TEST_CASE("gather: value * scale + offset with one rounding each, in the order asked for") {
    Dataset dataset = dataset_of<uint8_t>(ElementType::kUint8, {0, 51, 255, 1}, {2}, {1, 0}, 2);
    const float scale = 1.0f / 255, offset = -0.5f;
    dataset.set_scaling(scale, offset);
    const std::vector<uint32_t> rows{1, 0, 1};
    std::vector<float> features(6);
    std::vector<int32_t> labels(3);
    dataset.gather(rows, features, labels);
    CHECK(labels == std::vector<int32_t>{0, 1, 0});
    const auto expected = [&](float value) {
      const volatile float product = value * scale;
      return product + offset;
    };
    const std::vector<float> wanted{expected(255), expected(1),   expected(0),
                                    expected(51),  expected(255), expected(1)};
    CHECK(features == wanted);
  }

  TEST_CASE("gather: every element type keeps its sign and its limits") {
    CHECK(all_features(dataset_of<int8_t>(ElementType::kInt8, {-128, 127}, {1}, {}, 0)) ==
          std::vector<float>{-128, 127});
    CHECK(all_features(dataset_of<int16_t>(ElementType::kInt16, {-32768, 32767}, {1}, {}, 0)) ==
          std::vector<float>{-32768, 32767});
    CHECK(all_features(dataset_of<int32_t>(ElementType::kInt32, {INT32_MIN, 16777217}, {1}, {},
                                           0)) == std::vector<float>{-2147483648.0f, 16777216.0f});
    CHECK(all_features(dataset_of<float>(ElementType::kFloat32, {-0.1f, 3e38f}, {1}, {}, 0)) ==
          std::vector<float>{-0.1f, 3e38f});
    CHECK(all_features(dataset_of<double>(ElementType::kFloat64, {0.1, -1e-30}, {1}, {}, 0)) ==
          std::vector<float>{0.1f, -1e-30f});
  }

  TEST_CASE("keep: any rows in any order, and the memory of the rest is freed") {
    Random random(test::seed(), 1);
    std::vector<int16_t> values(600 * 3);
    std::vector<int32_t> labels(600);
    for (auto& value : values) value = static_cast<int16_t>(random.next());
    for (auto& label : labels) label = static_cast<int32_t>(random.below(7));
    Dataset dataset = dataset_of(ElementType::kInt16, values, {3}, labels, 7);
    const std::vector<float> before = all_features(dataset);
    const size_t bytes_before = dataset.bytes();
    std::vector<uint32_t> rows(50);
    for (auto& row : rows) row = static_cast<uint32_t>(random.below(600));
    dataset.keep(rows);
    REQUIRE(dataset.row_count() == rows.size());
    CHECK(dataset.bytes() < bytes_before / 8);
    CHECK(dataset.class_count() == 7);
    const std::vector<float> after = all_features(dataset);
    for (size_t i = 0; i < rows.size(); ++i) {
      CHECK(dataset.labels()[i] == labels[rows[i]]);
      for (size_t k = 0; k < 3; ++k) CHECK(after[i * 3 + k] == before[rows[i] * 3 + k]);
    }
    dataset.keep({});
    CHECK(dataset.row_count() == 0);
  }
}

TEST_SUITE("data/describe") {
  TEST_CASE("describe: says rows, shape, features, type, range, classes and memory") {
    Dataset dataset =
        dataset_of<uint8_t>(ElementType::kUint8, {0, 7, 9, 7, 255, 7}, {1, 2}, {0, 2, 2}, 4);
    const std::string text = describe(dataset);
    CHECK(contains(text, "3 rows of 1 x 2 (2 features, uint8, 0 to 255)"));
    CHECK(contains(text, "4 classes of 1 to 2 rows (2 classes have none)"));
    CHECK(contains(text, "in memory"));
    CHECK(contains(text, "1 features never change"));
  }

  TEST_CASE("describe: a data set without rows or labels says so") {
    CHECK(contains(describe(dataset_of<float>(ElementType::kFloat32, {}, {5}, {}, 0)),
                   "0 rows (5 features, float32): no samples"));
    CHECK(contains(describe(dataset_of<float>(ElementType::kFloat32, {1.5f}, {1}, {}, 0)),
                   "no labels"));
  }
}

}  // namespace paceline
