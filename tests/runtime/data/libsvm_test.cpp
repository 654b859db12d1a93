// LibSVM: lines, files, sparse rows in memory, and what a run makes of them.
#include "runtime/data/libsvm_row.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "runtime/base/log.h"
#include "runtime/data/describe.h"
#include "tests/runtime/data/data_files.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::contains;
using test::pick;
using test::TempFolder;

using Row = std::map<uint32_t, float>;  // by index or place

class Files {
 public:
  Files() { set_log_level(LogLevel::kOff); }
  Result<Dataset> read(std::string_view text, const DataSchema* schema = nullptr,
                       const std::string& name = "rows.svm") const {
    ReadOptions options;
    options.schema = schema;
    return read_dataset(folder_.write(name, text), options);
  }
  Dataset ok(std::string_view text, const DataSchema* schema = nullptr) const {
    Result<Dataset> dataset = read(text, schema);
    REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
    return std::move(*dataset);
  }
  std::string error(std::string_view text, const DataSchema* schema = nullptr) const {
    const Result<Dataset> dataset = read(text, schema);
    return dataset ? std::string() : dataset.error().message();
  }

  TempFolder folder_;
};

DataSchema sparse_schema(uint32_t features, uint32_t hash_bits, uint32_t non_zeros) {
  DataSchema schema;
  schema.sparse = {hash_bits > 0 ? 1u << hash_bits : features, hash_bits, non_zeros};
  schema.classes = {"-1", "+1"};
  return schema;
}

// What a batch gets of one row.
Row gathered(const Dataset& dataset, uint32_t row) {
  std::vector<float> features(dataset.feature_count());
  std::vector<int32_t> label(1);
  dataset.gather({&row, 1}, features, label);
  const size_t room = features.size() / 2;
  Row found;
  for (size_t i = 0; i < room; ++i)
    if (features[room + i] != 0) found[static_cast<uint32_t>(features[i])] = features[room + i];
  return found;
}

struct Table {
  std::string text;
  std::vector<Row> rows;  // by index
  std::vector<int32_t> labels;
};

Table random_table(Random& random, size_t row_count, uint32_t index_max) {
  const char* const kEnds[] = {"\n", "\r\n", " \n", " # note 3:4\n", "\n\n", "\t\n# 1 2:3\n"};
  Table table;
  for (size_t i = 0; i < row_count; ++i) {
    Row row;
    for (size_t k = pick(random, 9); k > 0; --k)
      row[static_cast<uint32_t>(1 + random.below(index_max))] =
          static_cast<float>(1 + random.below(64)) * 0.25f - 8;
    std::erase_if(row, [](const auto& entry) { return entry.second == 0; });
    const int32_t label = static_cast<int32_t>(random.below(2));
    table.text += label == 1 ? (random.below(2) == 0 ? "1" : "+1") : "-1";
    for (const auto& [index, value] : row)
      table.text += format_text("%s%u:%g", random.below(4) == 0 ? "  " : " ", index,
                                static_cast<double>(value));
    table.text += kEnds[pick(random, std::size(kEnds))];
    table.rows.push_back(std::move(row));
    table.labels.push_back(label);
  }
  return table;
}

}  // namespace

TEST_SUITE("data/libsvm") {
  TEST_CASE("any table is read as it was written, and rows keep what they hold when picked") {
    Files files;
    Random random(test::seed(), 1);
    for (int turn = 0; turn < 60; ++turn) {
      const uint32_t index_max = random.below(2) == 0 ? 12 : kSparseFeaturesMax;
      const Table table = random_table(random, 1 + pick(random, 40), index_max);
      const DataSchema schema = sparse_schema(index_max, 0, 9);
      Dataset dataset = files.ok(table.text, &schema);
      REQUIRE(dataset.row_count() == table.rows.size());
      CHECK(dataset.shape()[0] == 2);
      CHECK(dataset.shape()[1] == 9);
      CHECK(std::ranges::equal(dataset.labels(), table.labels));
      std::vector<uint32_t> picked(dataset.row_count());
      std::iota(picked.begin(), picked.end(), 0u);
      random.shuffle(std::span(picked));
      picked.resize(1 + pick(random, picked.size()));
      dataset.keep(picked);
      REQUIRE(dataset.row_count() == picked.size());
      for (uint32_t i = 0; i < picked.size(); ++i) {
        Row expected;
        for (const auto& [index, value] : table.rows[picked[i]]) expected[index - 1] = value;
        CHECK(gathered(dataset, i) == expected);
        CHECK(dataset.labels()[i] == table.labels[picked[i]]);
      }
    }
  }

  TEST_CASE("hashing: features that meet add up, every place is in range, and they are counted") {
    Files files;
    Random random(test::seed(), 2);
    for (int turn = 0; turn < 30; ++turn) {
      const Table table = random_table(random, 1 + pick(random, 40), 200);
      const DataSchema schema = sparse_schema(0, 4, 9);
      const Dataset dataset = files.ok(table.text, &schema);
      std::map<uint32_t, std::vector<uint32_t>> indices_of;
      for (uint32_t i = 0; i < table.rows.size(); ++i) {
        Row expected;
        for (const auto& [index, value] : table.rows[i]) {
          const uint32_t place = schema.sparse.place_of(index).value();
          REQUIRE(place < 16);
          expected[place] += value;
          std::vector<uint32_t>& sharing = indices_of[place];
          if (std::ranges::find(sharing, index) == sharing.end()) sharing.push_back(index);
        }
        std::erase_if(expected, [](const auto& entry) { return entry.second == 0; });
        CHECK(gathered(dataset, i) == expected);
      }
      size_t different = 0, sharing = 0;
      for (const auto& [place, indices] : indices_of) {
        different += indices.size();
        if (indices.size() > 1) sharing += indices.size();
      }
      if (different == 0) continue;
      const std::string note = describe(dataset);
      CHECK(contains(note, format_text("%zu different features", different)));
      CHECK(contains(note, format_text("hashed to 16 places, where %zu of them share", sharing)));
    }
  }

  TEST_CASE("a faulty line is an error with line, column and what to do") {
    Files files;
    const DataSchema schema = sparse_schema(9, 0, 3);
    struct Fault {
      const char* text;
      const char* message;
    };
    for (const Fault& fault : {
             Fault{"1 2:1\n-1 3:x\n", "line 2, column 4: '3:x' has no value that is a number"},
             Fault{"1 2:nan\n", "column 3: '2:nan' has no value"},
             Fault{"1 2:1e39\n", "column 3: '2:1e39' has no value"},
             Fault{"1 2:0x1p3\n", "column 3: '2:0x1p3' has no value"},
             Fault{"1 2\n", "line 1, column 3: '2' is not index:value"},
             Fault{"1 -2:1\n", "column 3: '-2:1' is not index:value"},
             Fault{"1 4294967296:1\n", "is not index:value"},
             Fault{"1 0:1\n", "index 0; indices count from 1"},
             Fault{"1 5:1 5:2\n", "line 1, column 7: '5:2' comes after index 5; indices ascend"},
             Fault{"1 5:1 4:2\n", "column 7: '4:2' comes after index 5"},
             Fault{"1 10:1\n", "index above the run's data.features, 9"},
             Fault{"1 1:1 2:1 3:1 4:1\n", "line 1, 4 values that are not 0, at most 3; raise"},
             Fault{"yes 1:1\n", "column 1: 'yes' is no label"},
             Fault{"\n\n1,2 1:1\n", "line 3, column 1: '1,2' are several labels"},
             Fault{"2 qid:7 1:1\n", "column 3: 'qid:7' is a query group of a ranking; take qid"},
             Fault{"# nothing\n\n", "no rows"},
             Fault{"7 1:1\n", "no row can be used; the first: line 1: '7'"},
         }) {
      CAPTURE(fault.text);
      const std::string error = files.error(fault.text, &schema);
      CAPTURE(error);
      CHECK(contains(error, fault.message));
      CHECK(contains(error, "rows.svm: "));
    }
  }

  TEST_CASE("bad rows are skipped where the run says so, but not what the whole file has wrong") {
    Files files;
    DataSchema schema = sparse_schema(9, 0, 2);
    schema.skip_bad_rows = true;
    const Dataset dataset = files.ok("1 1:1\n-1 2:x\n1 1:1 2:1 3:1\n5 1:1\n-1\n", &schema);
    CHECK(dataset.row_count() == 2);
    const std::string text = describe(dataset);
    CHECK(contains(text, "rows that can't be read, skipped: 2 (the first: line 2, column 4"));
    CHECK(contains(text, "rows whose label is no class of this run, refused: 1"));
    CHECK(contains(text, "rows without a value, all 0: 1"));
    CHECK(contains(files.error("1 qid:3 1:1\n", &schema), "query group"));
  }

  TEST_CASE("labels that are numbers stay numbers where the run names no classes") {
    Files files;
    DataSchema schema = sparse_schema(9, 0, 2);
    schema.classes.clear();
    const Dataset dataset = files.ok("0.5 1:1\n-2e1 2:1\n", &schema);
    CHECK(std::ranges::equal(dataset.numbers(), std::vector<float>{0.5f, -20}));
    CHECK(contains(files.error("0.5 1:1\n"), "is not a whole number"));
  }

  TEST_CASE("a file is known by its first row, whatever its name; others are not") {
    Files files;
    for (const char* rows : {"+1 3:1 11:1 \n-1 5:1\n", "# made by hand\n\n0 1:0.5\n1\t2:1\n"}) {
      const Result<Dataset> dataset = files.read(rows, nullptr, "a9a.t");
      REQUIRE_MESSAGE(dataset.has_value(), dataset.error().to_string());
      CHECK(dataset->sparse_rows() != nullptr);
      CHECK(dataset->row_count() == 2);
    }
    CHECK(contains(files.read("1 2 3\n4 5 6\n", nullptr, "a.txt").error().message(), "line 1"));
    CHECK_FALSE(looks_like_libsvm("time a:b\n1 2\n"));
    CHECK_FALSE(looks_like_libsvm("12:30 1:2\n"));
    CHECK_FALSE(looks_like_libsvm("1\n1 2:3\n"));
    CHECK_FALSE(looks_like_libsvm("#"));
    CHECK_FALSE(looks_like_libsvm(""));
    const Dataset packed = files.ok("1 1:1\n");
    ReadOptions options;
    const std::string path =
        files.folder_.write("rows.libsvm.gz", test::gzip(test::bytes_of("1 1:1\n-1 2:1\n")));
    CHECK(read_dataset(path, options).value().row_count() == 2);
  }

  TEST_CASE("runs of sparse rows and files of other kinds refuse each other by name") {
    Files files;
    const DataSchema sparse = sparse_schema(9, 0, 2);
    CHECK(contains(files.read("a,b\n1,2\n", &sparse, "t.csv").error().message(), "sparse rows"));
    DataSchema named;
    named.columns = {"a"};
    named.label = "b";
    named.classes = {"0", "1"};
    CHECK(contains(files.error("1 1:1\n", &named), "the run names columns"));
  }
}

}  // namespace paceline
