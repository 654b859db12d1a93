// ARFF: attributes, quotes, and the columns that words become.
#include "runtime/data/arff.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/base/log.h"
#include "runtime/data/table_profile.h"
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

class Files {
 public:
  Files() { set_log_level(LogLevel::kOff); }
  Result<Dataset> read(const char* name, std::string_view text, const ReadOptions& options) const {
    return read_dataset(folder_.write(name, text), options);
  }
  Dataset ok(std::string_view text, const ReadOptions& options = {}) const {
    Result<Dataset> dataset = read("t.arff", text, options);
    REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
    return std::move(*dataset);
  }
  std::string error(std::string_view text, const ReadOptions& options = {}) const {
    const Result<Dataset> dataset = read("t.arff", text, options);
    return dataset ? std::string() : dataset.error().message();
  }

  TempFolder folder_;
};

// A word as ARFF may have it; bare only where that is legal.
std::string arff_word(const std::string& word, Random& random) {
  const bool bare = word.find_first_of(" ,'\"{}%\\\t") == std::string::npos;
  if (bare && random.below(2) == 0) return word;
  const char quote = random.below(2) == 0 ? '\'' : '"';
  std::string text(1, quote);
  for (const char c : word) {
    if (c == quote || c == '\\') text += '\\';
    text += c;
  }
  return text + quote;
}

std::string csv_word(const std::string& word) {
  std::string text = "\"";
  for (const char c : word) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::string random_word(Random& random, size_t index) {
  static const char* const kParts[] = {"a", " b", "c,d", "e'f", "g\"h", "{i}", "j%", "k\\l", "é"};
  return kParts[pick(random, std::size(kParts))] + std::to_string(index) + "x";
}

struct Attribute {
  std::string name;
  Texts values;  // none: numeric
};

// The same table as ARFF and as CSV, there with a column for each value of a word.
struct Pair {
  std::string arff, csv;
  std::vector<Attribute> attributes;
};

Pair random_pair(Random& random) {
  static const char* const kNumeric[] = {"numeric", "REAL", "integer", "Numeric  % a number"};
  Pair pair;
  pair.arff = "% made up\n\n@RELATION 'any thing' % here\n";
  const size_t count = 2 + pick(random, 5);
  for (size_t i = 0; i < count; ++i) {
    Attribute attribute{random_word(random, i), {}};
    const bool label = i + 1 == count;
    if (label || random.below(2) == 0)
      for (size_t v = 0; v < 2 + pick(random, 3); ++v)
        attribute.values.push_back(random_word(random, v));
    pair.arff += "@attribute " + arff_word(attribute.name, random) + "\t";
    if (attribute.values.empty()) pair.arff += kNumeric[pick(random, std::size(kNumeric))];
    for (size_t v = 0; v < attribute.values.size(); ++v)
      pair.arff += (v == 0                 ? "{ "
                    : random.below(2) == 0 ? ","
                                           : " , ") +
                   arff_word(attribute.values[v], random);
    pair.arff += attribute.values.empty() ? "\r\n" : "}\n";
    if (label || attribute.values.empty())
      pair.csv += csv_word(attribute.name) + ",";
    else
      for (const std::string& value : attribute.values)
        pair.csv += csv_word(attribute.name + "=" + value) + ",";
    pair.attributes.push_back(std::move(attribute));
  }
  pair.csv.back() = '\n';
  pair.arff += "@DATA\n";
  for (size_t row = 0; row < 1 + pick(random, 12); ++row) {
    if (random.below(4) == 0) pair.arff += "% in between, 'open\n";
    for (size_t i = 0; i < count; ++i) {
      const Texts& values = pair.attributes[i].values;
      const std::string number = format_text("%.3f", static_cast<double>(random.symmetric()));
      const std::string& word = values.empty() ? number : values[pick(random, values.size())];
      pair.arff += (values.empty() ? word : arff_word(word, random)) + (i + 1 < count ? "," : "");
      if (i + 1 == count || values.empty())
        pair.csv += csv_word(word) + ",";
      else
        for (const std::string& value : values) pair.csv += value == word ? "1," : "0,";
    }
    pair.csv.back() = '\n';
    pair.arff += random.below(2) == 0 ? "\n" : " \r\n";
  }
  return pair;
}

constexpr std::string_view kWeather =
    "@relation weather\n"
    "@attribute outlook {sunny, overcast, rainy}\n"
    "@attribute heat numeric\n"
    "@attribute level {0, 1, 2}\n"
    "@attribute note string\n"
    "@attribute play {yes, no}\n"
    "@data\n"
    "sunny, 30, 2, 'too hot', no\n"
    "overcast, 20.5, 0, x, yes\n"
    "?, 10, 1, y, yes\n";

ReadOptions without(const char* column) {
  ReadOptions options;
  options.ignored_columns = {column};
  return options;
}

}  // namespace

TEST_SUITE("data/arff") {
  TEST_CASE("any table is the CSV that has a column for each value of its words") {
    Files files;
    Random random(test::seed(), 1);
    for (int turn = 0; turn < 150; ++turn) {
      const Pair pair = random_pair(random);
      CAPTURE(pair.arff);
      DataSchema schema;  // so that both count classes alike
      schema.label = pair.attributes.back().name;
      schema.classes = pair.attributes.back().values;
      ReadOptions options;
      const Result<Dataset> csv = files.read("t.csv", pair.csv, options);
      REQUIRE_MESSAGE(csv.has_value(), csv.error().to_string());
      const Dataset own = files.ok(pair.arff);
      CHECK(own.column_names == csv->column_names);
      CHECK(own.class_names == schema.classes);
      CHECK(all_features(own) == all_features(*csv));
      schema.columns = csv->column_names;
      std::ranges::reverse(schema.columns);
      options.schema = &schema;
      const Dataset by_run = files.ok(pair.arff, options);
      const Dataset by_run_too = files.read("t.csv", pair.csv, options).value();
      CHECK(all_features(by_run) == all_features(by_run_too));
      CHECK(std::ranges::equal(by_run.labels(), by_run_too.labels()));
      CHECK(std::ranges::equal(by_run.labels(), own.labels()));
    }
  }

  TEST_CASE(
      "missing values go by the run's rule, and one of a word is missing in all its columns") {
    Files files;
    CHECK(contains(files.error(kWeather, without("note")),
                   "row 3 (line 10), column 'outlook=sunny': '?' is not a number"));
    DataSchema schema;
    schema.columns = {"outlook=sunny", "outlook=rainy", "heat"};
    schema.label = "play";
    schema.classes = {"no", "yes"};
    schema.scale = {2, 4, 1};
    schema.offset = {-1, -1, -10};
    ReadOptions options;
    options.schema = &schema;
    CHECK(contains(files.error(kWeather, options), "'?' is a missing value"));
    schema.missing = MissingRule::kSkip;
    CHECK(files.ok(kWeather, options).row_count() == 2);
    schema.missing = MissingRule::kMean;
    CHECK(all_features(files.ok(kWeather, options)) ==
          std::vector<float>{1, 0, 30, 0, 0, 20.5f, 0.5f, 0.25f, 10});
  }

  TEST_CASE("words whose values are numbers, and those that a run names, stay one column") {
    Files files;
    DataSchema schema;
    schema.columns = {"level", "heat"};
    schema.label = "play";
    schema.classes = {"no", "yes"};
    ReadOptions options;
    options.schema = &schema;
    CHECK(all_features(files.ok(kWeather, options)) == std::vector<float>{2, 30, 0, 20.5f, 1, 10});
    options.label_column = "outlook";
    schema.classes = {"sunny", "overcast"};
    schema.missing = MissingRule::kSkip;
    CHECK(files.ok(kWeather, options).row_count() == 2);
  }

  TEST_CASE("what is wrong is named with its line") {
    Files files;
    const std::string head = "@relation r\n@attribute a numeric\n@attribute b {x, y}\n";
    struct Fault {
      std::string text;
      const char* message;
    };
    for (const Fault& fault : {
             Fault{std::string(kWeather), "attribute 'note' is text or a date"},
             Fault{head + "@data\n1,z\n", "row 1 (line 5), column 'b': 'z' is no class"},
             Fault{head + "@data\n1\n", "row 1 (line 5): 1 cells, the header names 2 attributes"},
             Fault{head + "@data\n1,'x\n", "line 5: a quote is opened and not closed"},
             Fault{head + "@data\n1,'x'y\n", "line 5: text after a closing quote"},
             Fault{head + "@data\n\n% none\n{0 1, 1 x}\n", "line 7: sparse ARFF rows"},
             Fault{head + "@data\n", "a header, but no rows"},
             Fault{head, "the file ends before @data"},
             Fault{"@relation r\n@data\n1\n", "line 2: @data, but no @attribute"},
             Fault{head + "@attribute a real\n@data\n", "line 4: attribute 'a' occurs twice"},
             Fault{head + "@attribute c {x, x}\n@data\n", "line 4: the values of attribute 'c'"},
             Fault{head + "@attribute c {x, y\n@data\n",
                   "line 4: the values of attribute 'c' are not"},
             Fault{head + "@attribute c relational\n@data\n", "'c' is relational"},
             Fault{head + "@attribute c number\n@data\n", "'c' is of type 'number'"},
             Fault{head + "@attribute '' real\n@data\n", "line 4: an attribute needs a name"},
             Fault{head + "1,x\n", "line 4: '1,x' where @attribute or @data should stand"},
             Fault{"@relation r\n@attribute a {x}\n@attribute a=x real\n@attribute b real\n@data\n",
                   "two columns would have the name 'a=x'"},
             Fault{"a,b\n1,2\n", "starts with @relation"},
         }) {
      CAPTURE(fault.text);
      const std::string error = files.error(fault.text);
      CAPTURE(error);
      CHECK(contains(error, fault.message));
    }
    ReadOptions options;
    options.label_column = "a";
    CHECK(contains(files.error(head + "@data\n1,xx\n", options),
                   "row 1 (line 5), attribute 'b': 'xx' is none of its values"));
  }

  TEST_CASE("a table is known by its first line, whatever its name") {
    Files files;
    const std::string rows =
        "% x\n@Relation r\n@attribute a numeric\n@attribute b {x, y}\n@data\n1,x\n";
    CHECK(files.read("t.txt", rows, {}).value().class_names == Texts{"x", "y"});
    CHECK_FALSE(looks_like_arff("relation,b\n"));
    CHECK_FALSE(looks_like_arff(""));
  }

  TEST_CASE("profile: words have a column for each value, and the last attribute is the label") {
    Files files;
    const Result<TableProfile> profile =
        profile_table(files.folder_.write("w.arff", kWeather), without("note"));
    REQUIRE_MESSAGE(profile.has_value(), profile.error().to_string());
    CHECK(profile->label == "play");
    CHECK(profile->row_count == 3);
    CHECK(profile->missing_row_count == 1);
    Texts names;
    for (const ColumnProfile& column : profile->columns) names.push_back(column.name);
    CHECK(names == Texts{"outlook=sunny", "outlook=overcast", "outlook=rainy", "heat", "level",
                         "note", "play"});
  }
}

}  // namespace paceline
