#include "runtime/data/schema.h"

#include <doctest/doctest.h>

#include "runtime/base/log.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::all_features;
using test::contains;
using test::pick;
using test::TempFolder;

constexpr const char* kWhole = R"([data]
columns = ["ax", " sound "]
label = "state"
classes = ["off", "idle", "busy"]
ignore = ["time"]
scale = [2, 0.5]
offset = [1, -4]
)";

std::string error_of(const std::string& toml) {
  const Result<DataSchema> schema = parse_data_schema(toml);
  return schema ? std::string() : schema.error().message();
}

DataSchema schema_of(const std::string& toml) {
  Result<DataSchema> schema = parse_data_schema(toml);
  REQUIRE_MESSAGE(schema.has_value(), schema.error().message());
  return std::move(*schema);
}

class Board {
 public:
  Board() { set_log_level(LogLevel::kOff); }
  Result<Dataset> read(const DataSchema& schema, std::string_view text,
                       const std::string& label = {}) const {
    ReadOptions options;
    options.schema = &schema;
    options.label_column = label;
    return read_dataset(folder_.write("board.csv", text), options);
  }
  Dataset ok(const DataSchema& schema, std::string_view text) const {
    Result<Dataset> dataset = read(schema, text);
    REQUIRE_MESSAGE(dataset.has_value(), dataset.error().message());
    return std::move(*dataset);
  }
  std::string error(const DataSchema& schema, std::string_view text) const {
    const Result<Dataset> dataset = read(schema, text);
    return dataset ? std::string() : dataset.error().message();
  }

 private:
  TempFolder folder_;
};

std::vector<int32_t> labels_of(const Dataset& dataset) {
  return {dataset.labels().begin(), dataset.labels().end()};
}

bool notes_say(const Dataset& dataset, std::string_view words) {
  for (const std::string& note : dataset.notes)
    if (contains(note, words)) return true;
  return false;
}

}  // namespace

TEST_SUITE("data/schema") {
  TEST_CASE("windows: each key needs the ones that give it a meaning, and says which") {
    const auto with = [](const std::string& keys) {
      return error_of(
          "[data]\ncolumns = [\"a\", \"b\"]\nlabel = \"y\"\nclasses = [\"0\", \"1\"]\n" + keys);
    };
    CHECK(with("window = 8\n").empty());
    CHECK(
        with("window = 8\nstride = 2\ntime = \"t\"\ntime_unit = \"ms\"\ngap_max = 0.5\n").empty());
    CHECK(contains(with("stride = 2\n"), "data.stride is of windows; give data.window"));
    CHECK(contains(with("gap_max = 2\n"), "data.gap_max is of windows"));
    CHECK(contains(with("window = 0\n"), "data.window has to be"));
    CHECK(contains(with("window = 8\ntime = \"t\"\n"), "data.time needs data.gap_max"));
    CHECK(contains(with("window = 8\ntime_unit = \"ms\"\n"), "data.time_unit is of data.time"));
    CHECK(contains(with("window = 8\ntime_unit = \"h\"\n"), "data.time_unit is 'h'"));
    CHECK(contains(with("window = 8\ngap_max = 0.5\n"), "counts rows that were left out"));
    CHECK(contains(with("task = \"forecast\"\n"), "go together"));
    CHECK(contains(with("horizon = 3\n"), "go together"));
    CHECK(contains(with("task = \"forcast\"\n"), "data.task is 'forcast'"));
    CHECK(contains(with("task = \"forecast\"\nhorizon = 3\n"), "leave data.classes out"));
    CHECK(contains(error_of("[data]\nwindow = 8\n"), "names no columns"));
    const DataSchema forecast = schema_of(
        "[data]\ncolumns = [\"a\", \"y\"]\nlabel = \"y\"\ntask = \"forecast\"\nhorizon = 3\n"
        "window = 8\n");
    CHECK(forecast.windows.stride == 8);
    CHECK(forecast.check_model(16, 0, 1).ok());
    CHECK(contains(forecast.check_model(2, 0, 1).message(), "give model.input = [2, 8]"));
  }

  TEST_CASE("sparse rows: features or hash_bits with non_zeros, and nothing that is of columns") {
    const std::string whole =
        "[data]\nfeatures = 123\nnon_zeros = 14\nclasses = [\"-1\", \"+1\"]\n";
    const DataSchema schema = schema_of(whole);
    CHECK(schema.reads_rows());
    CHECK(schema.check_model(28, 2, 2, 123).ok());
    CHECK(contains(schema.check_model(28, 2, 2).message(), "entries = 123"));
    CHECK(contains(schema.check_model(28, 2, 2, 124).message(), "make them equal"));
    CHECK(contains(schema.check_model(30, 2, 2, 123).message(), "model.input = [2, 14]"));
    CHECK(contains(schema.check_model(28, 3, 3, 123).message(), "names 2 classes"));
    CHECK(contains(DataSchema().check_model(28, 2, 2, 123).message(), "data.features = 123"));
    const DataSchema hashed = schema_of("[data]\nhash_bits = 18\nnon_zeros = 40\n");
    CHECK(hashed.sparse.feature_count == 1u << 18);
    CHECK(hashed.label_is_number());
    CHECK(contains(error_of(whole + "hash_bits = 8\n"), "leave one out"));
    CHECK(contains(error_of("[data]\nfeatures = 123\n"), "and data.non_zeros"));
    CHECK(contains(error_of("[data]\nnon_zeros = 3\n"), "need data.features or data.hash_bits"));
    CHECK(contains(error_of("[data]\nhash_bits = 25\nnon_zeros = 3\n"), "data.hash_bits"));
    for (const char* key :
         {"columns = [\"a\"]", "label = \"y\"", "scale = 2", "missing = \"skip\"", "window = 4"})
      CHECK(contains(error_of(whole + key + "\n"), "is of tables with named columns"));
  }

  TEST_CASE("parse: names are trimmed, one scale serves all columns, none is as before") {
    const DataSchema schema = schema_of(kWhole);
    CHECK(schema.columns == std::vector<std::string>{"ax", "sound"});
    CHECK(schema.scale == std::vector<float>{2, 0.5f});
    CHECK(schema.check_model(2, 3, 3).ok());
    CHECK(
        contains(schema.check_model(3, 3, 3).message(), "names 2 columns, but model.input has 3"));
    CHECK(
        contains(schema.check_model(2, 4, 4).message(), "names 3 classes, but model.classes is 4"));
    const DataSchema old = schema_of("[data]\nscale = 0.5\n");
    CHECK_FALSE(old.names_columns());
    CHECK(old.scale == std::vector<float>{0.5f});
    CHECK(old.check_model(784, 10, 10).ok());
  }

  TEST_CASE("parse: what can't be meant is refused with the key and the fix") {
    CHECK(
        contains(error_of("[data]\ncolumns = [\"a\"]\n"), "give all three, or columns and label"));
    CHECK(contains(error_of(std::string(kWhole) + "label_scale = 2\n"), "are of numbers"));
    CHECK(contains(error_of("[data]\ncolumns = [\"a\"]\nlabel = \"y\"\nlabel_scale = 0\n"),
                   "data.label_scale is 0"));
    CHECK(contains(error_of("[data]\nmissing = \"skip\"\n"), "give columns, label and"));
    CHECK(contains(error_of("[data]\nscale = [1, 2]\n"), "data.scale has 2 numbers; give one"));
    CHECK(contains(error_of("[data]\nscal = 1\n"), "did you mean 'scale'?"));
    const std::string whole = kWhole;
    CHECK(contains(error_of(whole + "missing = \"zero\"\n"),
                   "'zero', has to be \"error\", \"skip\""));
    CHECK(contains(error_of(whole + "bad_rows = \"mean\"\n"), "has to be \"error\" or \"skip\""));
    const std::string head = "[data]\nlabel = \"y\"\nclasses = [\"0\", \"1\"]\n";
    CHECK(contains(error_of(head + "columns = [\"a\", \"a\"]\n"), "names 'a' twice"));
    CHECK(contains(error_of(head + "columns = [\"a\", \"y\"]\n"), "holds the label 'y'"));
    CHECK(contains(error_of(head + "columns = [\"\"]\n"), "holds an empty name"));
    CHECK(contains(error_of(head + "columns = [\"a\", \"b\"]\nmissing = \"mean\"\n"),
                   "needs a scale and an offset for each column"));
    CHECK(contains(error_of(head + "columns = [\"a\"]\nscale = [0]\noffset = [0]\n"
                                   "missing = \"mean\"\n"),
                   "data.scale of 'a' is 0"));
  }

  TEST_CASE("read: without classes the label is a number, scaled when it is gathered") {
    const DataSchema schema = schema_of(
        "[data]\ncolumns = [\"a\", \"b\"]\nlabel = \"co\"\nlabel_scale = 0.5\n"
        "label_offset = -3\nmissing = \"mean\"\nscale = [1, 1]\noffset = [0, 0]\n"
        "missing_values = [\"-200\"]\nbad_rows = \"skip\"\n");
    CHECK(schema.label_is_number());
    CHECK(schema.check_model(2, 0, 1).ok());
    CHECK(contains(schema.check_model(2, 0, 2).message(), "one label, but model.outputs is 2"));
    CHECK(contains(schema.check_model(2, 3, 3).message(),
                   "names no classes, but model.classes is 3"));
    CHECK(
        contains(schema_of(kWhole).check_model(2, 0, 1).message(), "but the model gives numbers"));
    CHECK(contains(DataSchema().check_model(2, 0, 1).message(),
                   "needs [data] with columns and label"));
    const Board board;
    // The mean stands for a feature that is missing, never for a label.
    Dataset dataset = board.ok(schema, "co;a;b\n1,5;1;2\n-200,0;3;4\nmuch;5;6\n;5;6\n-4;-200;8\n");
    CHECK(dataset.row_count() == 2);
    CHECK(dataset.labels().empty());
    CHECK(dataset.class_count() == 0);
    CHECK(std::vector<float>(dataset.numbers().begin(), dataset.numbers().end()) ==
          std::vector<float>{1.5f, -4});
    CHECK(notes_say(dataset, "rows with a missing value, skipped: 1 (the first: row 2 (line 3)"));
    CHECK(notes_say(dataset, "'much' is not a number, as the label of this run is"));
    dataset.set_number_scaling(schema.label_scale, schema.label_offset);
    std::vector<float> targets(2);
    dataset.gather_targets(std::vector<uint32_t>{1, 0}, targets);
    CHECK(targets == std::vector<float>{-5, -2.25f});
    dataset.keep(std::vector<uint32_t>{1});
    dataset.gather_targets(std::vector<uint32_t>{0}, std::span(targets).first(1));
    CHECK(targets[0] == -5);
    CHECK(contains(board.error(schema, "co,a,b\noff,1,2\n"), "none of 1 rows can be used"));
  }

  TEST_CASE("read: any order of columns, extra ones and any subset of classes count alike") {
    const DataSchema schema = schema_of(kWhole);
    const Board board;
    Random random(test::seed(), 5);
    const std::vector<std::string> classes = {"off", "idle", "busy"};
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> order = {"time", "ax", "sound", "state", "note", "ay"};
      random.shuffle(std::span(order));
      std::string text;
      for (const std::string& name : order) text += (text.empty() ? " " : " ; ") + name;
      const size_t row_count = 1 + pick(random, 9);
      const size_t classes_seen = 1 + pick(random, 3);
      std::vector<float> wanted;
      std::vector<int32_t> labels;
      for (size_t row = 0; row < row_count; ++row) {
        const float ax = static_cast<float>(pick(random, 1000)) / 8;
        const float sound = static_cast<float>(pick(random, 1000)) / 4;
        wanted.insert(wanted.end(), {ax * 2 + 1, sound * 0.5f - 4});
        labels.push_back(static_cast<int32_t>(2 - pick(random, classes_seen)));
        text += "\n";
        for (const std::string& name : order) {
          if (name == "ax" || name == "sound")
            text += format_text("%.3f", static_cast<double>(name == "ax" ? ax : sound));
          else if (name == "state")
            text += " " + classes[static_cast<size_t>(labels.back())];
          else
            text += "10:30";
          if (name != order.back()) text += ";";
        }
      }
      CAPTURE(text);
      Dataset dataset = board.ok(schema, text);
      dataset.set_scaling(schema.scale, schema.offset);
      CHECK(all_features(dataset) == wanted);
      CHECK(labels_of(dataset) == labels);
      CHECK(dataset.class_count() == 3);
      CHECK(notes_say(dataset, "does not name, left out: "));
      CHECK_FALSE(notes_say(dataset, "'time'"));
    }
  }

  TEST_CASE("read: a missing column is named with the nearest one that is there") {
    const DataSchema schema = schema_of(kWhole);
    const Board board;
    CHECK(contains(board.error(schema, "ax,Sound,state\n1,2,off\n"),
                   "no column is named 'sound'; did you mean 'Sound'?"));
    CHECK(contains(board.error(schema, "p,q,state\n1,2,off\n"),
                   "no column is named 'ax'; there are 'p', 'q', 'state'"));
    CHECK(contains(board.error(schema, "ax,sound,stat\n1,2,off\n"), "did you mean 'stat'?"));
    CHECK(contains(board.error(schema, "ax,sound,stat\n1,2,off\n"), "--label-column"));
    CHECK(labels_of(board.read(schema, "ax,sound,stat\n1,2,idle\n", "stat").value()) ==
          std::vector<int32_t>{1});
  }

  TEST_CASE("read: rows of an unknown class are refused, counted and told the nearest") {
    const DataSchema schema = schema_of(kWhole);
    const Board board;
    const Dataset dataset =
        board.ok(schema, "ax,sound,state\n1,2,off\n3,4,bussy\n5,6,busy\n7,8,bussy\n");
    CHECK(labels_of(dataset) == std::vector<int32_t>{0, 2});
    CHECK(notes_say(dataset,
                    "no class of this run, refused: 2 (the first: row 2 (line 3), column 'state': "
                    "'bussy' is no class of this run; did you mean 'busy'?)"));
    CHECK(contains(board.error(schema, "ax,sound,state\n1,2,on\n"), "none of 1 rows can be used"));
  }

  TEST_CASE("read: whole numbers name a class in any spelling") {
    DataSchema schema = schema_of(kWhole);
    schema.classes = {"3", "1", "-1"};
    const Board board;
    CHECK(labels_of(board.ok(schema, "ax,sound,state\n1,2,3.0\n1,2,-1\n1,2,01\n")) ==
          std::vector<int32_t>{0, 2, 1});
  }

  TEST_CASE("read: missing values and bad rows go by the run's rule and are counted") {
    DataSchema schema = schema_of(kWhole);
    const Board board;
    const std::string table =
        "ax,sound,state\n1,2,off\n,2,off\n1,NA,busy\n5,6,\n7,8,idle\n1,2\n3,1e400,off\n";
    CHECK(
        contains(board.error(schema, table), "row 2 (line 3), column 'ax': '' is a missing value"));
    schema.missing = MissingRule::kSkip;
    CHECK(contains(board.error(schema, table), "row 6 (line 7): 2 cells, the header names 3"));
    schema.skip_bad_rows = true;
    const Dataset skipped = board.ok(schema, table);
    CHECK(all_features(skipped) == std::vector<float>{1, 2, 7, 8});
    CHECK(notes_say(skipped, "rows with a missing value, skipped: 3 (the first: row 2"));
    CHECK(notes_say(skipped, "rows that can't be read, skipped: 2 (the first: row 6"));
    // A line that can't be split is one bad row.
    const Dataset broken =
        board.ok(schema, "ax,sound,state\n1,2,off\n\"3\"x,4,off\n5,6\r,off\n7,8,off\n");
    CHECK(all_features(broken) == std::vector<float>{1, 2, 7, 8});
    CHECK(notes_say(broken, "rows that can't be read, skipped: 2 (the first: line 3"));
    CHECK(contains(board.error(schema, "ax,sound,state\n1,2,off\n\"3,4,off\n"), "never closed"));
    // The mean is what becomes 0; a row without a label still does not count.
    schema.missing = MissingRule::kMean;
    const Dataset filled = board.ok(schema, table);
    CHECK(all_features(filled) == std::vector<float>{1, 2, -0.5f, 2, 1, 8, 7, 8});
    CHECK(notes_say(filled, "the column's mean stands for them: 2"));
  }
}

}  // namespace paceline
