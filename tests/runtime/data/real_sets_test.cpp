// Whole published data sets, against counts that were taken by other programs.
#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/data/describe.h"
#include "tests/runtime/data/data_files.h"

namespace paceline {

namespace {

using test::class_counts;
using test::contains;
using test::real_file;

using Counts = std::vector<size_t>;

Dataset read_pair(const std::string& images, const std::string& labels) {
  ReadOptions options;
  options.label_file = labels;
  Result<Dataset> dataset = read_dataset(images, options);
  REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
  return std::move(*dataset);
}

Dataset read_table(const std::string& path, std::vector<std::string> ignored, std::string label) {
  ReadOptions options;
  options.ignored_columns = std::move(ignored);
  options.label_column = std::move(label);
  Result<Dataset> dataset = read_dataset(path, options);
  REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
  return std::move(*dataset);
}

}  // namespace

TEST_SUITE("data/real_sets") {
  TEST_CASE("mnist t10k: 10,000 images with the known class counts") {
    const std::string folder = real_file("mnist-t10k/");
    if (folder.empty()) return;
    const Dataset dataset =
        read_pair(folder + "t10k-images-idx3-ubyte.gz", folder + "t10k-labels-idx1-ubyte.gz");
    CHECK(dataset.feature_count() == 784);
    CHECK(class_counts(dataset) == Counts{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
    CHECK(contains(describe(dataset),
                   "10,000 rows of 28 x 28 (784 features, uint8, 0 to 255), "
                   "10 classes of 892 to 1,135 rows, 7.5 MiB in memory."));
  }

  TEST_CASE("fashion-mnist: 6,000 and 1,000 images a class") {
    const std::string folder = "/usr/share/datasets/fashion-mnist/";
    if (!std::filesystem::exists(folder)) return;
    CHECK(class_counts(read_pair(folder + "train-images-idx3-ubyte.gz",
                                 folder + "train-labels-idx1-ubyte.gz")) == Counts(10, 6000));
    CHECK(class_counts(read_pair(folder + "t10k-images-idx3-ubyte.gz",
                                 folder + "t10k-labels-idx1-ubyte.gz")) == Counts(10, 1000));
  }

  TEST_CASE("har: 7,483 windows of 64 x 6 int16 with the known class counts") {
    const std::string folder = real_file("har-sp-sw/");
    if (folder.empty()) return;
    const Dataset dataset =
        read_pair(folder + "windows-x.idx3-short.gz", folder + "windows-label.idx1-ubyte.gz");
    CHECK(dataset.row_count() == 7483);
    CHECK(dataset.feature_count() == 384);
    CHECK(class_counts(dataset) == Counts{485, 871, 3648, 1619, 860});
  }

  TEST_CASE("libsvm: rows, values, features and labels of four published files") {
    const std::string folder = real_file("sparse/");
    if (folder.empty()) return;
    struct Known {
      const char* name;
      size_t rows, values;
      const char* features;
      size_t class_count;
    };
    for (const Known& known :
         {Known{"a9a.gz", 32'561, 451'592, "123 different features, indices 1 to 123", 2},
          Known{"a9a.t.gz", 16'281, 225'731, "122 different features", 2},
          Known{"adult-cross-hash20.train.svm.gz", 32'561, 2'539'685, "different features", 2},
          Known{"debian-sections-hash22.train.svm.gz", 41'892, 949'260, "different features",
                20}}) {
      CAPTURE(known.name);
      const Dataset dataset = read_table(folder + known.name, {}, "");
      CHECK(dataset.row_count() == known.rows);
      REQUIRE(dataset.sparse_rows() != nullptr);
      CHECK(dataset.sparse_rows()->entry_count() == known.values);
      CHECK(contains(describe(dataset), known.features));
      CHECK(dataset.class_count() == known.class_count);
    }
  }

  TEST_CASE("tables: rows, features and classes of five published sensor tables") {
    const std::string folder = real_file("tabular/");
    if (folder.empty()) return;
    const Dataset room =
        read_table(folder + "room-occupancy-estimation.csv.gz", {"Date", "Time"}, "");
    CHECK(class_counts(room) == Counts{8228, 459, 748, 694});
    CHECK(room.feature_count() == 16);
    const Dataset letter = read_table(folder + "letter.csv.gz", {}, "lettr");
    CHECK(letter.row_count() == 20'000);
    CHECK(letter.class_names.size() == 26);
    CHECK(letter.class_names.front() == "A");
    const Dataset satellite = read_table(folder + "satellite.csv.gz", {}, "");
    CHECK(satellite.row_count() == 6435);
    CHECK(satellite.feature_count() == 36);
    const Dataset shuttle = read_table(folder + "shuttle.csv.gz", {}, "Class");
    CHECK(shuttle.row_count() == 58'000);
    CHECK(shuttle.class_count() == 7);
    const Dataset air =
        read_table(folder + "AirQualityUCI.csv.gz", {"Date", "Time"}, "PT08.S1(CO)");
    CHECK(air.row_count() == 9357);
    CHECK(air.notes == std::vector<std::string>{"rows without content, skipped: 114"});
  }
}

}  // namespace paceline
