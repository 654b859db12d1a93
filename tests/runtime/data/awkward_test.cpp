// The files of the data folder's awkward/: real ones as found, and real ones broken on purpose.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/data/describe.h"
#include "runtime/data/table_profile.h"
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

  TEST_CASE("weka: words become columns, classes are the declared ones, '?' goes by the rule") {
    const std::string folder = real_file("awkward/weka-");
    if (folder.empty()) return;
    const Dataset iris = read_ok(folder + "iris.arff");
    CHECK(iris.feature_count() == 4);
    CHECK(iris.class_names.front() == "Iris-setosa");
    CHECK(class_counts(iris) == std::vector<size_t>{50, 50, 50});
    CHECK(all_features(iris)[0] == 5.1f);
    const Dataset lenses = read_ok(folder + "contact-lenses.arff");
    CHECK(lenses.feature_count() == 3 + 2 + 2 + 2);
    CHECK(class_counts(lenses) == std::vector<size_t>{5, 4, 15});  // as its comments say
    const Dataset weather = read_ok(folder + "weather.nominal.arff");
    CHECK(weather.column_names[1] == "outlook=overcast");
    CHECK(class_counts(weather) == std::vector<size_t>{9, 5});
    const std::vector<float> values = all_features(weather);
    CHECK(std::vector<float>(values.begin(), values.begin() + 10) ==
          std::vector<float>{1, 0, 0, 1, 0, 0, 1, 0, 0, 1});
    const Dataset cpu = read_ok(folder + "cpu.with.vendor.arff");
    CHECK(cpu.row_count() == 209);
    CHECK(cpu.feature_count() == 30 + 6);
    CHECK(contains(read_error(folder + "labor.arff"), "'?' is not a number"));
    const Result<TableProfile> labor = profile_table(folder + "labor.arff");
    REQUIRE(labor.has_value());
    DataSchema schema;
    schema.label = labor->label;
    schema.classes = {"bad", "good"};
    schema.missing = MissingRule::kSkip;
    for (const ColumnProfile& column : labor->columns)
      if (column.name != labor->label) schema.columns.push_back(column.name);
    schema.scale.assign(schema.columns.size(), 1);
    schema.offset.assign(schema.columns.size(), -0.5f);
    ReadOptions options;
    options.schema = &schema;
    // One of its 57 rows has a value in each cell.
    CHECK(read_ok(folder + "labor.arff", options).row_count() == 57 - labor->missing_row_count);
    schema.missing = MissingRule::kMean;
    CHECK(class_counts(read_ok(folder + "labor.arff", options)) == std::vector<size_t>{20, 37});
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

  TEST_CASE("air quality, cell by cell: one copy is the same, the other has 28 values times ten") {
    const std::string folder = real_file("awkward/airquality-");
    if (folder.empty()) return;
    const ReadOptions options = table_options({"Date", "Time"}, "PT08.S1(CO)");
    const Dataset comma = read_ok(folder + "semicolon-decimalcomma-crlf-300rows.csv", options);
    const std::vector<float> known = all_features(comma);
    const auto column = std::ranges::find(comma.column_names, "AH") - comma.column_names.begin();
    const size_t width = comma.feature_count();
    for (const char* name : {"bom-isodate-crlf-300rows.csv", "semicolon-decimaldot-300rows.csv"}) {
      CAPTURE(name);
      const Dataset copy = read_ok(folder + name, options);
      CHECK(copy.column_names == comma.column_names);
      CHECK(copy.row_count() == 300);
      const std::vector<float> values = all_features(copy);
      size_t different = 0, times_ten = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] == known[i]) continue;
        ++different;
        times_ten +=
            i % width == static_cast<size_t>(column) && std::abs(values[i] / known[i] - 10) < 0.01f;
      }
      const bool corrupt = std::string_view(name).starts_with("semicolon");
      CHECK(different == (corrupt ? 28 : 0));
      CHECK(times_ten == different);
      // What init shows of a column is what tells: humidity of 10 g beside 0.5 g.
      const Result<TableProfile> profile = profile_table(folder + name);
      REQUIRE(profile.has_value());
      for (const ColumnProfile& shown : profile->columns)
        if (shown.name == "AH") CHECK((shown.highest > 5) == corrupt);
    }
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

  TEST_CASE("room occupancy with blanks: the mean is as far from the truth as a mean can be") {
    const std::string path = real_file("awkward/room-occupancy-estimation-with-blanks.csv.gz");
    if (path.empty()) return;
    const Dataset known = read_ok(real_file("tabular/room-occupancy-estimation.csv.gz"),
                                  table_options({"Date", "Time"}, ""));
    const Result<TableProfile> profile = profile_table(path);
    REQUIRE(profile.has_value());
    CHECK(profile->missing_row_count == 335);
    DataSchema schema;  // as init writes it
    schema.columns = known.column_names;
    schema.label = "Room_Occupancy_Count";
    schema.classes = {"0", "1", "2", "3"};
    schema.missing = MissingRule::kMean;
    schema.scale.clear();
    schema.offset.clear();
    for (const std::string& name : schema.columns) {
      const auto column = std::ranges::find(profile->columns, name, &ColumnProfile::name);
      schema.scale.push_back(static_cast<float>(1 / column->deviation));
      schema.offset.push_back(static_cast<float>(-column->mean / column->deviation));
    }
    ReadOptions options;
    options.schema = &schema;
    Dataset filled = read_ok(path, options), truth = known;
    const auto says = [&](const std::string& note) {
      return contains(note, "missing values, the column's mean stands for them: 386");
    };
    CHECK(std::ranges::any_of(filled.notes, says));
    for (Dataset* dataset : {&filled, &truth}) dataset->set_scaling(schema.scale, schema.offset);
    const std::vector<float> values = all_features(filled), expected = all_features(truth);
    double squares = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double off = static_cast<double>(values[i]) - static_cast<double>(expected[i]);
      squares += off * off;
    }
    // In standard deviations of each column: 1 is what a mean is off by on any cells.
    const double off = std::sqrt(squares / 386);
    std::printf("386 blanks filled with means: off by %.3f standard deviations\n", off);
    CHECK(off < 1.25);
    CHECK(off > 0.6);
  }

  TEST_CASE("every file of the folder has its line here, and does what the line says") {
    const std::string folder = real_file("awkward/");
    if (folder.empty()) return;
    struct File {
      const char* name;
      const char* result;  // its first words, or those of the error
    };
    const ReadOptions air = table_options({"Date", "Time"}, "PT08.S1(CO)");
    const File files[] = {
        {"airquality-bom-isodate-crlf-300rows.csv", "300 rows (12 features"},
        {"airquality-semicolon-decimalcomma-crlf-300rows.csv", "306 rows (12 features"},
        {"airquality-semicolon-decimaldot-300rows.csv", "300 rows (12 features"},
        {"arem-bending1-dataset1.csv", "row 1: label '1.30' is not a whole number"},
        {"arem-sitting-dataset8.csv", "row 1: label '1.30' is not a whole number"},
        {"bad-gz-bitflip.idx.gz", "damaged"},
        {"bad-gz-empty.idx.gz", "the file is empty"},
        {"bad-gz-named-but-plain.idx.gz", "64 rows of 28 x 28"},
        {"bad-gz-trailing-garbage.idx.gz", "that are not gzip follow"},
        {"bad-gz-truncated.idx.gz", "cut off"},
        {"bad-idx-0D-float-nan-inf.idx", "every value must be finite"},
        {"bad-idx-header-cut.idx", "the header is cut off"},
        {"bad-idx-little-endian-dims.idx", "the dimensions are little-endian"},
        {"bad-idx-magic-nonzero.idx", "starts with bytes 89 50"},
        {"bad-idx-payload-short.idx", "the file is cut off"},
        {"bad-idx-unknown-type-0A.idx", "element type 0x0a"},
        {"bad-label-count-63.idx", "63 rows (1 features"},  // as data; as labels see above
        {"bad-label-out-of-range-200.idx", "64 rows (1 features"},
        {"csv-cut-midrow.csv", "the file seems to be cut off"},
        {"csv-empty.csv", "the file is empty"},
        {"csv-header-only.csv", "a header, but no rows"},
        {"csv-no-final-newline.csv", "rows (12 features"},
        {"csv-quotes-newline-unicode-hexfloat.csv", "column 'sensor id': 'a;1'"},
        {"gz-ok.idx.gz", "64 rows of 28 x 28"},
        {"gz-two-members.idx.gz", "64 rows of 28 x 28"},
        {"idx-08-4d-64x1x28x28.idx", "64 rows of 1 x 28 x 28"},
        {"idx-08-empty-0x28x28.idx", "no samples, so nothing to train on"},
        {"idx-08-labels-64.idx", "64 rows (1 features"},
        {"idx-08-ubyte-64x28x28.idx", "64 rows of 28 x 28 (784 features, uint8"},
        {"idx-09-sbyte-64x28x28.idx", "64 rows of 28 x 28 (784 features, int8"},
        {"idx-0B-short-64x28x28.idx", "64 rows of 28 x 28 (784 features, int16"},
        {"idx-0C-int-64x28x28.idx", "64 rows of 28 x 28 (784 features, int32"},
        {"idx-0D-float-64x28x28.idx", "64 rows of 28 x 28 (784 features, float32"},
        {"room-occupancy-estimation-with-blanks.csv.gz", "column 'Date'"},
        {"weka-contact-lenses.arff", "24 rows (9 features"},
        {"weka-cpu.with.vendor.arff", "209 rows (36 features"},
        {"weka-iris.arff", "150 rows (4 features"},
        {"weka-labor.arff", "'?' is not a number"},
        {"weka-weather.nominal.arff", "14 rows (10 features"},
    };
    size_t met = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name == "README.md") continue;
      CAPTURE(name);
      const auto file = std::ranges::find(files, name, &File::name);
      REQUIRE(file != std::end(files));
      const bool is_air = name.starts_with("airquality") || name.starts_with("csv-cut") ||
                          name.starts_with("csv-no");
      const Result<Dataset> dataset = read_dataset(entry.path(), is_air ? air : ReadOptions());
      const std::string said = dataset ? describe(*dataset) : dataset.error().message();
      CAPTURE(said);
      CHECK(contains(said, file->result));
      ++met;
    }
    CHECK(met == std::size(files));
  }
}

}  // namespace paceline
