// The files of the data folder's awkward/: real ones as found, and real ones broken on purpose.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/runtime/data/data_files.h"

namespace paceline {

namespace {

using test::all_features;
using test::class_counts;
using test::contains;
using test::read_error;
using test::real_file;

struct BrokenFile {
  const char* name;
  const char* fault;
};

ReadOptions table_options(std::vector<std::string> ignored, std::string label) {
  ReadOptions options;
  options.ignored_columns = std::move(ignored);
  options.label_column = std::move(label);
  return options;
}

Dataset read_ok(const std::string& path, const ReadOptions& options = {}) {
  Result<Dataset> dataset = read_dataset(path, options);
  REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
  return std::move(*dataset);
}

}  // namespace

TEST_SUITE("data/awkward") {
  TEST_CASE("every broken file is an error that names it and its fault") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    for (const BrokenFile& broken : {
             BrokenFile{"bad-idx-little-endian-dims.idx", "the dimensions are little-endian"},
             BrokenFile{"bad-idx-unknown-type-0A.idx", "element type 0x0a"},
             BrokenFile{"bad-idx-magic-nonzero.idx", "starts with bytes 89 50"},
             BrokenFile{"bad-idx-payload-short.idx",
                        "49176 bytes of values, dimensions 64 x 28 x 28"},
             BrokenFile{"bad-idx-header-cut.idx", "the header is cut off: 9 bytes"},
             BrokenFile{"bad-idx-0D-float-nan-inf.idx", "every value must be finite"},
             BrokenFile{"bad-gz-truncated.idx.gz", "cut off"},
             BrokenFile{"bad-gz-bitflip.idx.gz", "damaged"},
             BrokenFile{"bad-gz-trailing-garbage.idx.gz", "that are not gzip follow"},
             BrokenFile{"bad-gz-empty.idx.gz", "the file is empty"},
             BrokenFile{"csv-empty.csv", "the file is empty"},
             BrokenFile{"csv-header-only.csv", "a header, but no rows"},
             BrokenFile{"csv-quotes-newline-unicode-hexfloat.csv",
                        "row 1 (line 2), column 'sensor id': 'a;1'"},
             BrokenFile{"room-occupancy-estimation-with-blanks.csv.gz", "column 'Date'"},
             // The last column is no label.
             BrokenFile{"arem-bending1-dataset1.csv", "'1.30' is not a whole number"},
             BrokenFile{"arem-sitting-dataset8.csv", "'1.30' is not a whole number"},
         }) {
      const std::string error = read_error(folder + broken.name);
      CAPTURE(error);
      CHECK(contains(error, folder + broken.name));
      CHECK(contains(error, broken.fault));
    }
  }

  TEST_CASE("weka files are no CSV and end in an error") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    for (const char* name : {"weka-labor.arff", "weka-cpu.with.vendor.arff", "weka-iris.arff",
                             "weka-contact-lenses.arff", "weka-weather.nominal.arff"})
      CHECK(contains(read_error(folder + name), "ARFF"));
  }

  TEST_CASE("label files that do not fit their images are refused") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    ReadOptions options;
    options.class_count = 10;
    options.label_file = folder + "bad-label-out-of-range-200.idx";
    CHECK(contains(read_error(folder + "idx-08-ubyte-64x28x28.idx", options),
                   "label 200 at index 9"));
    options.label_file = folder + "bad-label-count-63.idx";
    CHECK(contains(read_error(folder + "idx-08-ubyte-64x28x28.idx", options),
                   "63 labels for 64 rows"));
    options.label_file = folder + "idx-08-labels-64.idx";
    CHECK(read_error(folder + "idx-08-ubyte-64x28x28.idx", options) == "");
  }

  TEST_CASE("the same digits in five element types are equal after the inverse map") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    const std::vector<float> pixels = all_features(read_ok(folder + "idx-08-ubyte-64x28x28.idx"));
    REQUIRE(pixels.size() == 64 * 28 * 28);
    const auto inverse = [&](const char* name, auto map) {
      std::vector<float> values = all_features(read_ok(folder + name));
      for (float& value : values) value = map(value);
      return values;
    };
    CHECK(inverse("idx-09-sbyte-64x28x28.idx", [](float v) { return v + 128; }) == pixels);
    CHECK(inverse("idx-0B-short-64x28x28.idx", [](float v) { return (v + 8000) / 64; }) == pixels);
    CHECK(inverse("idx-0C-int-64x28x28.idx", [](float v) {
            return static_cast<float>((static_cast<double>(v) + 9e6) / 1e5);
          }) == pixels);
    CHECK(inverse("idx-0D-float-64x28x28.idx", [](float v) { return std::round(v * 255); }) ==
          pixels);
  }

  TEST_CASE("four dimensions, no rows, and gzip in one or two members or none load fully") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    const std::vector<float> pixels = all_features(read_ok(folder + "idx-08-ubyte-64x28x28.idx"));
    const Dataset cube = read_ok(folder + "idx-08-4d-64x1x28x28.idx");
    CHECK(cube.shape().size() == 3);
    CHECK(all_features(cube) == pixels);
    const Dataset empty = read_ok(folder + "idx-08-empty-0x28x28.idx");
    CHECK(empty.row_count() == 0);
    CHECK(empty.feature_count() == 784);
    for (const char* name :
         {"gz-ok.idx.gz", "gz-two-members.idx.gz", "bad-gz-named-but-plain.idx.gz"})
      CHECK(all_features(read_ok(folder + name)) == pixels);
  }

  TEST_CASE("air quality: three spellings of the same numbers load alike") {
    const std::string folder = real_file("awkward/airquality-");
    if (folder.empty()) return;
    const ReadOptions options = table_options({"Date", "Time", "AH"}, "PT08.S1(CO)");
    Dataset comma = read_ok(folder + "semicolon-decimalcomma-crlf-300rows.csv", options);
    CHECK(comma.notes == std::vector<std::string>{"rows without content, skipped: 114"});
    std::vector<uint32_t> first_rows(300);
    std::iota(first_rows.begin(), first_rows.end(), 0u);
    comma.keep(first_rows);
    CHECK(all_features(comma)[0] == 2.6f);
    const std::vector<float> expected = all_features(comma);
    CHECK(all_features(read_ok(folder + "bom-isodate-crlf-300rows.csv", options)) == expected);
    CHECK(all_features(read_ok(folder + "semicolon-decimaldot-300rows.csv", options)) == expected);
  }

  TEST_CASE("csv: a missing final newline is right, a cut row is named") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    const ReadOptions options = table_options({"Date", "Time"}, "PT08.S1(CO)");
    const Dataset dataset = read_ok(folder + "csv-no-final-newline.csv", options);
    CHECK(all_features(dataset).back() == 0.6766f);
    CHECK(contains(read_error(folder + "csv-cut-midrow.csv", options),
                   "14 cells, the header names 15; the file seems to be cut off"));
  }

  TEST_CASE("csv: quotes and newlines inside are read; the number column is refused at NaN") {
    const std::string path = real_file("awkward/csv-quotes-newline-unicode-hexfloat.csv");
    if (path.empty()) return;
    const auto error =
        read_error(path, table_options({"sensor id", "temp, °C", "note \"free\" text"}, "class"));
    CHECK(contains(error, "row 1 (line 2), column 'value': 'NaN' is not a number"));
  }

  TEST_CASE("arem: columns named in a comment, mixed line ends, any number of rows") {
    const std::string folder = real_file("awkward/arem-");
    if (folder.empty()) return;
    const Dataset dataset = read_ok(folder + "bending1-dataset1.csv", table_options({}, "time"));
    CHECK(dataset.row_count() == 480);
    CHECK(dataset.column_names.back() == "var_rss23");
    CHECK(all_features(dataset)[0] == 39.25f);
    CHECK(read_ok(folder + "sitting-dataset8.csv", table_options({}, "time")).row_count() == 479);
  }

  TEST_CASE("room occupancy with blanks: the first blank is named with its line") {
    const std::string path = real_file("awkward/room-occupancy-estimation-with-blanks.csv.gz");
    if (path.empty()) return;
    CHECK(contains(read_error(path, table_options({"Date", "Time"}, "")),
                   "row 11 (line 12), column 'S3_Light': '' is empty"));
  }

  TEST_CASE("air quality: -200 stands for a missing value where the run says so") {
    const std::string folder = real_file("awkward/airquality-");
    if (folder.empty()) return;
    DataSchema schema;
    schema.columns = {"T", "CO(GT)"};
    schema.label = "PT08.S1(CO)";
    schema.classes = {"1360", "1292", "1402"};
    schema.missing = MissingRule::kSkip;
    schema.missing_values = {"-200"};
    ReadOptions options;
    options.schema = &schema;
    for (const char* name : {"semicolon-decimalcomma-crlf-300rows.csv",
                             "bom-isodate-crlf-300rows.csv", "semicolon-decimaldot-300rows.csv"}) {
      CAPTURE(name);
      const Dataset air = read_ok(folder + name, options);
      const std::vector<float> values = all_features(air);
      // In the order of the run, not of the file.
      CHECK(values[0] == 13.6f);
      CHECK(values[1] == 2.6f);
      CHECK(std::ranges::find(values, -200.0f) == values.end());
      CHECK(air.labels()[0] == 0);
      bool skipped = false;
      for (const std::string& note : air.notes)
        skipped |= contains(note, "rows with a missing value, skipped: ");
      CHECK(skipped);
    }
  }

  TEST_CASE("room occupancy with blanks: 335 rows are skipped, or 386 cells become the mean") {
    const std::string path = real_file("awkward/room-occupancy-estimation-with-blanks.csv.gz");
    if (path.empty()) return;
    const std::string whole = real_file("tabular/room-occupancy-estimation.csv.gz");
    const Dataset known = read_ok(whole, table_options({"Date", "Time"}, ""));
    DataSchema schema;
    schema.columns = known.column_names;
    schema.label = "Room_Occupancy_Count";
    schema.classes = {"0", "1", "2", "3"};
    schema.scale.assign(16, 0.5f);
    schema.offset.assign(16, -3.0f);
    ReadOptions options;
    options.schema = &schema;
    CHECK(contains(read_error(path, options),
                   "row 11 (line 12), column 'S3_Light': '' is a missing"));
    schema.missing = MissingRule::kSkip;
    CHECK(read_ok(path, options).row_count() == 10'129 - 335);
    schema.missing = MissingRule::kMean;
    const std::vector<float> filled = all_features(read_ok(path, options));
    const std::vector<float> truth = all_features(known);
    REQUIRE(filled.size() == truth.size());
    size_t replaced = 0;
    for (size_t i = 0; i < filled.size(); ++i) replaced += filled[i] != truth[i];
    CHECK(replaced > 300);
    CHECK(replaced <= 386);  // a blanked value may have been 6
  }
}

}  // namespace paceline
