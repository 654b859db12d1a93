#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::all_features;
using test::contains;
using test::pick;
using test::TempFolder;

using Texts = std::vector<std::string>;

class Csv {
 public:
  // Thousands of small tables would each log their note.
  Csv() { set_log_level(LogLevel::kOff); }
  Result<Dataset> read(std::string_view text, const ReadOptions& options = {}) const {
    return read_dataset(folder_.write("table.csv", text), options);
  }
  std::string error(std::string_view text, const ReadOptions& options = {}) const {
    const Result<Dataset> dataset = read(text, options);
    return dataset ? std::string() : dataset.error().message();
  }
  Dataset ok(std::string_view text, const ReadOptions& options = {}) const {
    Result<Dataset> dataset = read(text, options);
    REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
    return std::move(*dataset);
  }

 private:
  TempFolder folder_;
};

std::vector<int32_t> labels_of(const Dataset& dataset) {
  return {dataset.labels().begin(), dataset.labels().end()};
}

ReadOptions with_label(const std::string& name) {
  ReadOptions options;
  options.label_column = name;
  return options;
}

// A random table in one of the forms that the reader takes.
struct Table {
  Texts columns;
  std::vector<float> features;
  Texts labels;
  std::string text;
};

class TableWriter {
 public:
  explicit TableWriter(Random random) : random_(random) {}

  Table write() {
    separator_ = ",;\t"[pick(random_, 3)];
    decimal_comma_ = separator_ == ';' && pick(random_, 2) == 0;
    const size_t column_count = 1 + pick(random_, 6);
    const size_t row_count = 1 + pick(random_, 30);
    if (pick(random_, 3) == 0) table_.text += "\xEF\xBB\xBF";
    maybe_comment();
    for (size_t i = 0; i < column_count; ++i) {
      table_.columns.push_back(word() + std::to_string(i));
      table_.text += cell(table_.columns.back()) + separator_;
    }
    table_.text += "label" + line_end();
    for (size_t i = 0; i < row_count; ++i) add_row(column_count);
    if (pick(random_, 2) == 0)
      while (table_.text.back() == '\n' || table_.text.back() == '\r') table_.text.pop_back();
    return std::move(table_);
  }

 private:
  void add_row(size_t column_count) {
    if (pick(random_, 8) == 0)
      table_.text += std::string(pick(random_, 5), separator_) + line_end();
    maybe_comment();
    for (size_t i = 0; i < column_count; ++i) {
      char text[32];
      std::snprintf(text, sizeof text, "%.9g",
                    static_cast<double>(random_.symmetric() * (pick(random_, 2) ? 1e6f : 1e-6f)));
      table_.features.push_back(std::strtof(text, nullptr));
      std::string number(text);
      if (decimal_comma_) std::replace(number.begin(), number.end(), '.', ',');
      table_.text += cell(number) + separator_;
    }
    table_.labels.push_back("class " + word());
    table_.text += cell(table_.labels.back()) + line_end();
  }

  std::string word() {
    const char* const letters[] = {"a", "\xC3\xA9", "Z", "\"", ",", ";", "\t", "#", "\n", "x"};
    std::string text = "w";
    for (size_t i = pick(random_, 4); i > 0; --i) text += letters[pick(random_, 10)];
    return text + "w";
  }
  std::string cell(const std::string& content) {
    const bool special = content.find_first_of(",;\t\"\n") != std::string::npos;
    if (!special && pick(random_, 4) != 0) {
      const std::string blank(pick(random_, 3) == 0 ? 1 : 0, ' ');
      return blank + content + blank;
    }
    std::string quoted = "\"";
    for (const char c : content) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + "\"";
  }
  void maybe_comment() {
    if (pick(random_, 6) == 0) table_.text += "# a, \"comment; \t" + line_end();
  }
  std::string line_end() { return pick(random_, 2) == 0 ? "\n" : "\r\n"; }

  Random random_;
  char separator_ = ',';
  bool decimal_comma_ = false;
  Table table_;
};

}  // namespace

TEST_SUITE("data/reader_csv") {
  TEST_CASE("read: a random table in any accepted form comes back equal") {
    const Csv csv;
    for (uint64_t i = 0; i < 300; ++i) {
      const Table table = TableWriter(Random(test::seed(), i)).write();
      CAPTURE(table.text);
      const Dataset dataset = csv.ok(table.text);
      REQUIRE(dataset.row_count() == table.labels.size());
      CHECK(dataset.column_names == table.columns);
      CHECK(all_features(dataset) == table.features);
      const std::set<std::string> sorted(table.labels.begin(), table.labels.end());
      CHECK(dataset.class_names == Texts(sorted.begin(), sorted.end()));
      for (size_t row = 0; row < table.labels.size(); ++row)
        CHECK(dataset.class_names[static_cast<size_t>(dataset.labels()[row])] == table.labels[row]);
    }
  }

  TEST_CASE("read: the label is the last named column, or the one that is asked for") {
    const Csv csv;
    const Dataset last = csv.ok("a,b,c\n1,2,3\n4,5,0\n");
    CHECK(last.column_names == Texts{"a", "b"});
    CHECK(labels_of(last) == std::vector<int32_t>{3, 0});
    const Dataset first = csv.ok("a,b,c\n1,2,3\n4,5,0\n", with_label("a"));
    CHECK(first.column_names == Texts{"b", "c"});
    CHECK(all_features(first) == std::vector<float>{2, 3, 5, 0});
    CHECK(contains(csv.error("a,b\n1,2\n", with_label("z")), "no column is named 'z'"));
  }

  TEST_CASE("read: ignored columns may hold anything and are no features") {
    const Csv csv;
    ReadOptions options;
    options.ignored_columns = {"time"};
    const Dataset dataset = csv.ok("time,a,y\n10:00,1,0\n,2,1\n", options);
    CHECK(dataset.column_names == Texts{"a"});
    options.ignored_columns = {"tme"};
    CHECK(contains(csv.error("time,a,y\n10:00,1,0\n", options), "no column is named 'tme'"));
  }

  TEST_CASE("labels: whole numbers from 0 on are class numbers as they stand, also with gaps") {
    const Csv csv;
    const Dataset dataset = csv.ok("a,y\n0,4\n0,1.0\n0,01\n");
    CHECK(labels_of(dataset) == std::vector<int32_t>{4, 1, 1});
    CHECK(dataset.class_count() == 5);
    CHECK(dataset.class_names == Texts{"0", "1", "2", "3", "4"});
  }

  TEST_CASE("labels: other whole numbers are sorted by value, text by bytes") {
    const Csv csv;
    const Dataset numbers = csv.ok("a,y\n0,100000\n0,-1\n0,20\n0,-1.0\n");
    CHECK(labels_of(numbers) == std::vector<int32_t>{2, 0, 1, 0});
    CHECK(numbers.class_names == Texts{"-1", "20", "100000"});
    const Dataset text = csv.ok("a,y\n0,walk\n0,10\n0, sit \n0,walk\n");
    CHECK(labels_of(text) == std::vector<int32_t>{2, 0, 1, 2});
    CHECK(text.class_names == Texts{"10", "sit", "walk"});
  }

  TEST_CASE(
      "labels: empty, fractional, beyond the class count or not UTF-8 are errors with a place") {
    const Csv csv;
    CHECK(contains(csv.error("a,y\n1,x\n1,\n"), "row 2 (line 3), column 'y': '' is empty"));
    CHECK(contains(csv.error("a,y\n1,2\n1,2.5\n"), "row 2: label '2.5' is not a whole number"));
    CHECK(contains(csv.error("a,y\n1,\xB0\n"), "row 1 (line 2), column 'y'"));
    ReadOptions options;
    options.class_count = 2;
    CHECK(contains(csv.error("a,y\n1,0\n1,2\n", options),
                   "row 2: label 2; classes are numbered 0 to 1"));
    CHECK(contains(csv.error("a,y\n1,u\n1,v\n1,w\n", options), "more than 2 different labels"));
    CHECK(csv.ok("a,y\n1,0\n", options).class_count() == 2);
  }

  TEST_CASE("cells: what is no plain number is named with row, line, column and content") {
    const Csv csv;
    for (const char* cell :
         {"NaN", "-inf", "1e400", "1e39", "0x1p3", "１２", "1_000", "NA", "10:30", "1 2"}) {
      CAPTURE(cell);
      const std::string text = std::string("a,b,y\n# c\n1,2,0\n\n3,") + cell + ",1\n";
      CHECK(contains(csv.error(text),
                     std::string("row 2 (line 5), column 'b': '") + cell + "' is n"));
    }
    CHECK(contains(csv.error("a,b,y\n1,,0\n"), "row 1 (line 2), column 'b': '' is empty"));
    const std::string error = csv.error("a,y\n" + std::string(1000, 'x') + ",0\n");
    CHECK(contains(error, "'" + std::string(40, 'x') + "...'"));
    CHECK(error.size() < 300);
  }

  TEST_CASE("cells: decimal commas belong to ';' and are never mixed with points") {
    const Csv csv;
    CHECK(all_features(csv.ok("a;y\n2,6;1\n-0,5e1;0\n")) == std::vector<float>{2.6f, -5});
    CHECK(all_features(csv.ok("a;y\n2.6;1\n")) == std::vector<float>{2.6f});
    CHECK(contains(csv.error("a;b;y\n2,6;1;1\n1.5;1;0\n"),
                   "'1.5' has the decimal mark '.', rows before have ','"));
    CHECK(contains(csv.error("a;y\n1.234,5;1\n"), "'1.234,5' is not a number"));
    CHECK(contains(csv.error("a\ty\n\"2,6\"\t1\n"), "'2,6' is not a number"));
  }

  TEST_CASE("rows: a wrong number of cells is an error with a hint") {
    const Csv csv;
    CHECK(contains(csv.error("a,b,y\n1,2,0\n1,2\n1,2,0\n"),
                   "row 2 (line 3): 2 cells, the header names 3"));
    CHECK(contains(csv.error("a,b,y\n1,2,0\n1,2"), "the file seems to be cut off"));
    CHECK(contains(csv.error("a,y\n1,5,0\n"), "does the first column lack a name?"));
  }

  TEST_CASE("rows: R's row names, in quotes and without a name, are left out and noted") {
    const Csv csv;
    const Dataset dataset = csv.ok("\"a\",\"y\"\n\"140\",5,0\n\"141\",6,1\n");
    CHECK(dataset.column_names == Texts{"a"});
    CHECK(all_features(dataset) == std::vector<float>{5, 6});
    CHECK(contains(dataset.notes.at(0), "row name"));
    // A decimal comma where a comma separates must not pass for a row name.
    CHECK(contains(csv.error("a,y\n2,6,1\n"), "3 cells, the header names 2"));
  }

  TEST_CASE("header: a comment names the columns where the rows begin at once and it fits them") {
    const Csv csv;
    const Dataset dataset = csv.ok("# made by x\r\n# Columns: t, b,y\r\n1,2,0\n3,4,1\r\n");
    CHECK(dataset.column_names == Texts{"t", "b"});
    CHECK(all_features(dataset) == std::vector<float>{1, 2, 3, 4});
    CHECK(contains(dataset.notes.at(0), "the comment in line 2"));
    CHECK(contains(csv.error("# Columns: a,b\n1,2,0\n"), "stands where column 1 should be named"));
    CHECK(contains(csv.error("# 1,2,3\n1,2,0\n"), "stands where column 1 should be named"));
  }

  TEST_CASE("rows: those without content are skipped and noted, whatever their length") {
    const Csv csv;
    const Dataset dataset = csv.ok("a;y\n1;0\n;;;;\n\n2;1\n;\n");
    CHECK(dataset.row_count() == 2);
    CHECK(dataset.notes == Texts{"rows without content, skipped: 3"});
  }

  TEST_CASE("columns: unnamed ones are dropped while empty and an error with content") {
    const Csv csv;
    CHECK(csv.ok("a;y;;\n1;0;;\n").column_names == Texts{"a"});
    CHECK(
        contains(csv.error("a;y;;\n1;0;;7\n"), "column 4: '7' stands in a column without a name"));
  }

  TEST_CASE("header: none, numbers, a repeated name, one column or bytes of another encoding") {
    const Csv csv;
    CHECK(contains(csv.error("\n"), "no line of column names"));
    CHECK(contains(csv.error("# only a comment"), "no line of column names"));
    CHECK(contains(csv.error("a,y\n"), "a header, but no rows"));
    CHECK(contains(csv.error("# c\r\n0,39.25\n"),
                   "line 2: '0' stands where column 1 should be named"));
    CHECK(contains(csv.error("a,b,a\n1,2,3\n"), "column 'a' occurs twice"));
    CHECK(contains(csv.error("a\n1\n"), "needs a label column and at least one other"));
    CHECK(contains(csv.error("temp \xB0,y\n1,0\n"), "column 1 is not UTF-8"));
    CHECK(contains(csv.error(std::string_view("\xFF\xFE"
                                              "a\0,\0",
                                              6)),
                   "UTF-16; save it as UTF-8"));
  }

  TEST_CASE("quotes: broken ones and control bytes name the line") {
    const Csv csv;
    CHECK(contains(csv.error("a,y\n1,0\n\"2,0\n3,0\n"),
                   "line 3: a quote is opened and never closed"));
    CHECK(contains(csv.error("a,y\n\"1\"2,0\n"), "line 2: text after a closing quote"));
    CHECK(contains(csv.error("a,y\n1\r2,0\n"), "line 2: a carriage return inside a row"));
    CHECK(contains(csv.error(std::string("a,y\n") + std::string(5000, '1') + std::string("\0", 1)),
                   "line 2: a zero byte"));
    CHECK(contains(csv.error("a,y\n" + std::string(70'000, ',')), "line 2: more than 65536 cells"));
  }

  TEST_CASE("kinds: a label file beside a table, and binary that is no table, are refused") {
    const Csv csv;
    ReadOptions options;
    options.label_file = "y.idx";
    CHECK(contains(csv.error("a,y\n1,0\n", options), "leave the label file y.idx out"));
    CHECK(contains(csv.error(std::string_view("PK\3\4\0\0", 6)), "neither IDX nor a text table"));
  }

  TEST_CASE("read: random truncations and changed bytes never crash") {
    const Csv csv;
    Random random(test::seed(), 77);
    for (uint64_t i = 0; i < 500; ++i) {
      std::string text = TableWriter(Random(test::seed(), i % 50)).write().text;
      const std::string_view hostile(
          "\"\r\n,;\t#\0\xFF"
          "1e-.",
          13);
      for (size_t k = pick(random, 5); k > 0; --k)
        text[pick(random, text.size())] = hostile[pick(random, hostile.size())];
      if (pick(random, 3) == 0) text.resize(pick(random, text.size()) + 1);
      const Result<Dataset> dataset = csv.read(text);
      if (dataset) CHECK(dataset->labels().size() == dataset->row_count());
    }
  }
}

}  // namespace paceline
