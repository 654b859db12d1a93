#include "server/init_run.h"

#include <doctest/doctest.h>

#include "runtime/base/files.h"
#include "server/run_config.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::TempFolder;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string table() {
  std::string text = "time,ax,unit,sound,state\n";
  for (int i = 0; i < 60; ++i)
    text += format_text("%d,%d,g,%d.5,%s\n", i, i * 31 % 17, i * 7 % 13,
                        i % 3 == 0   ? "off"
                        : i % 3 == 1 ? "idle"
                                     : "busy \\\"\"quoted\"\"");
  size_t at = 0;
  while ((at = text.find("busy", at)) != std::string::npos) {
    text.insert(at, "\"");
    at = text.find('\n', at);
    text.insert(at, "\"");
  }
  return text;
}

struct Site {
  TempFolder folder;
  InitOptions options;
  explicit Site(const std::string& text) {
    options.sample_file = folder.write("sample.csv", text);
    options.run_file = folder.file("run.toml");
  }
  std::string error() const {
    const Result<std::string> told = init_run(options);
    return told ? std::string() : told.error().message();
  }
  ServeConfig config() const {
    const Bytes bytes = read_file(options.run_file, 1 << 20).value();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    Result<ServeConfig> parsed = parse_serve_config(text, "run.toml");
    REQUIRE_MESSAGE(parsed.has_value(), parsed.error().message());
    return std::move(*parsed);
  }
};

}  // namespace

TEST_SUITE("server/init_run") {
  TEST_CASE("init: what it writes is a run that serve takes, with the sample's columns and scale") {
    Site site(table());
    site.options.workers = 3;
    const Result<std::string> told = init_run(site.options);
    REQUIRE(told.has_value());
    const ServeConfig config = site.config();
    const DataSchema& schema = config.schema;
    CHECK(schema.columns == std::vector<std::string>{"ax", "sound"});
    CHECK(schema.label == "state");
    CHECK(schema.classes == std::vector<std::string>{"busy \\\"quoted\"", "idle", "off"});
    CHECK(schema.ignored == std::vector<std::string>{"time", "unit"});
    CHECK(config.core.run.model.input_features() == 2);
    CHECK(config.core.run.model.class_count == 3);
    CHECK(config.rounds == 100);
    CHECK(config.core.min_workers == 3);
    CHECK(contains(*told, "time: rises or falls with every row"));
    CHECK(contains(*told, "unit: the same in every row: zero variance"));
    // What the scale makes of the sample has mean 0 and variance 1.
    double sum = 0, squares = 0;
    for (int i = 0; i < 60; ++i) {
      const float x = static_cast<float>(i * 31 % 17) * schema.scale[0] + schema.offset[0];
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
    CHECK(sum / 60 == doctest::Approx(0).epsilon(1e-4));
    CHECK(squares / 60 == doctest::Approx(1).epsilon(1e-4));
  }

  TEST_CASE("init: never replaces a file unless it is told to") {
    Site site(table());
    site.folder.write("run.toml", "mine");
    CHECK(contains(site.error(), "is there already; --force replaces it"));
    CHECK(read_file(site.options.run_file, 10)->size() == 4);
    site.options.force = true;
    CHECK(site.error().empty());
    CHECK(site.config().schema.names_columns());
  }

  TEST_CASE("init: a label of many numbers is predicted, on the scale of the sample") {
    std::string text = "x,level,state,word\n";
    for (int i = 0; i < 600; ++i) text += format_text("%d,%d.25,%d,w%d\n", i % 7, i % 97, i % 2, i);
    Site site(text);
    site.options.label = "level";
    REQUIRE(site.error().empty());
    const ServeConfig config = site.config();
    CHECK(config.schema.label_is_number());
    CHECK(config.core.run.model.class_count == 0);
    CHECK(config.core.run.model.output_count == 1);
    CHECK(config.core.run.training.loss.kind == LossKind::kMse);
    double sum = 0, squares = 0;
    for (int i = 0; i < 600; ++i) {
      const float number = static_cast<float>(i % 97) + 0.25f;
      const auto target =
          static_cast<double>(number * config.schema.label_scale + config.schema.label_offset);
      sum += target;
      squares += target * target;
    }
    CHECK(sum / 600 == doctest::Approx(0).epsilon(1e-4));
    CHECK(squares / 600 == doctest::Approx(1).epsilon(1e-4));
    // Unasked, only where no column holds classes.
    site.options.force = true;
    site.options.label = "";
    REQUIRE(site.error().empty());
    CHECK_FALSE(site.config().schema.label_is_number());
    site.options.ignored = {"state", "x"};
    CHECK(contains(site.error(), "no column besides the label 'level'"));
    site.options.ignored = {"level", "state", "x"};
    CHECK(contains(site.error(), "or more than 32 different numbers"));
    site.options.label = "word";
    CHECK(contains(site.error(), "more than 256 different values and is no measured number"));
  }

  TEST_CASE("init: fast rows with times get windows that see some seconds, and a net along them") {
    const auto timed = [](const char* header, int64_t begin, int64_t step, int count) {
      std::string text = std::string(header) + ",ax,state\n";
      for (int i = 0; i < count; ++i)
        text += format_text("%lld,%d.5,%d\n", static_cast<long long>(begin + i * step), i * 31 % 17,
                            i / 20 % 2);
      return text;
    };
    Site fast(timed("t", 1657534605376, 10, 900));
    REQUIRE_MESSAGE(fast.error().empty(), fast.error());
    const ServeConfig config = fast.config();
    const WindowRules& windows = config.schema.windows;
    CHECK(windows.rows == 128);
    CHECK(windows.stride == 32);
    CHECK(windows.time == "t");
    CHECK(windows.time_unit_s == 1e-3);
    CHECK(windows.gap_max == doctest::Approx(0.03));
    CHECK(config.core.run.model.input_shape == std::vector<uint32_t>{1, 1, 128});
    CHECK(config.core.run.model.layers.front().type == "conv1d");
    Site slow(timed("t", 1657534605, 60, 900));
    REQUIRE(slow.error().empty());
    CHECK_FALSE(slow.config().schema.windows.used());
    // A serial number is no time; whoever asks for windows gets them, and whoever wants none, none.
    Site counted(timed("t", 7, 1, 900));
    counted.options.force = slow.options.force = true;
    REQUIRE(counted.error().empty());
    CHECK_FALSE(counted.config().schema.windows.used());
    counted.options.window = 4;
    REQUIRE(counted.error().empty());
    CHECK(counted.config().schema.windows.rows == 4);
    CHECK(counted.config().schema.windows.time.empty());
    slow.options.window = 16;
    REQUIRE(slow.error().empty());
    CHECK(slow.config().schema.windows.rows == 16);
    CHECK(slow.config().schema.windows.gap_max == doctest::Approx(180));
    fast.options.force = true;
    fast.options.window = 1;
    REQUIRE(fast.error().empty());
    CHECK_FALSE(fast.config().schema.windows.used());
  }

  TEST_CASE("init: a forecast has its column as label and as feature") {
    std::string text = "hour,level,word,flag\n";
    for (int i = 0; i < 600; ++i) text += format_text("%d,%d.25,w%d,1\n", i, i % 97, i);
    Site site(text);
    site.options.forecast = "level";
    site.options.horizon = 6;
    REQUIRE_MESSAGE(site.error().empty(), site.error());
    const ServeConfig config = site.config();
    CHECK(config.schema.columns == std::vector<std::string>{"level"});
    CHECK(config.schema.label == "level");
    CHECK(config.schema.windows.horizon == 6);
    CHECK(config.schema.windows.rows == 16);
    CHECK(config.schema.windows.stride == 1);
    CHECK(config.core.run.model.output_count == 1);
    site.options.force = true;
    site.options.forecast = "word";
    CHECK(contains(site.error(), "'word' can't be forecast"));
    site.options.forecast = "levle";
    CHECK(contains(site.error(), "did you mean 'level'?"));
    site.options.forecast = "level";
    site.options.label = "level";
    CHECK(contains(site.error(), "leave --label out"));
  }

  TEST_CASE("init: an unknown name and a table without a feature are refused") {
    std::string text = "x,level,state\n";
    for (int i = 0; i < 600; ++i) text += format_text("%d,%d.25,%d\n", i % 7, i % 97, i % 2);
    Site site(text);
    site.options.label = "stat";
    CHECK(contains(site.error(), "no column is named 'stat'; did you mean 'state'?"));
    site.options.label = "";
    site.options.ignored = {"level", "x"};
    CHECK(contains(site.error(), "no column besides the label 'state'"));
  }

  TEST_CASE("init: missing values are skipped while few, else the mean stands for them") {
    const auto with_missing = [](int every) {
      std::string text = "a,b,y\n";
      for (int i = 0; i < 100; ++i)
        text += format_text("%s,%d,%d\n", i % every == 0 ? "NA" : std::to_string(i % 9).c_str(),
                            i % 5, i % 2);
      return text;
    };
    const Site few(with_missing(10));
    REQUIRE(few.error().empty());
    CHECK(few.config().schema.missing == MissingRule::kSkip);
    const Site many(with_missing(3));
    REQUIRE(many.error().empty());
    CHECK(many.config().schema.missing == MissingRule::kMean);
    CHECK(many.config().schema.missing_values == std::vector<std::string>{"NA"});
  }

  TEST_CASE("init: a wide table's run still travels, and one that can't is refused") {
    const auto wide = [](int columns) {
      std::string text;
      for (int i = 0; i < columns; ++i) text += format_text("acceleration_%d,", i);
      text += "y\n";
      for (int row = 0; row < 12; ++row) {
        for (int i = 0; i < columns; ++i) text += format_text("%d,", (row * 7 + i) * 31 % 13);
        text += std::to_string(row % 2) + "\n";
      }
      return text;
    };
    const Site fits(wide(1000));
    REQUIRE(fits.error().empty());
    CHECK(fits.config().schema.columns.size() == 1000);
    CHECK(contains(Site(wide(4000)).error(), "4000 features make a description of"));
  }

  TEST_CASE("init: a hostile column name stays a name") {
    std::string text = "\"a\"\"]\n[server]\nlisten = \"\"x\",\"b\n\",y\n";
    for (int i = 0; i < 50; ++i) text += format_text("%d,%d,%d\n", i % 7, i, i % 2);
    const Site site(text);
    REQUIRE(site.error().empty());
    const ServeConfig config = site.config();
    CHECK(config.schema.columns.at(0) == "a\"]\n[server]\nlisten = \"x");
    CHECK(config.listen == "tcp://0.0.0.0:7433");
  }

  TEST_CASE("init: sparse rows keep their indices where the model fits a board, else are hashed") {
    const auto rows = [](uint32_t index_max) {
      std::string text;
      for (int i = 0; i < 50; ++i)
        text += format_text("%d 3:1 %u:0.5%s\n", i % 3, index_max - 1 - static_cast<uint32_t>(i),
                            i == 7 ? format_text(" %u:1", index_max).c_str() : "");
      return text;
    };
    for (const uint32_t index_max : {200u, 2'000'000u, 2'000'001u, 4'000'000'000u}) {
      CAPTURE(index_max);
      const Site site(rows(index_max));
      REQUIRE(site.error() == "");
      const ServeConfig config = site.config();
      const SparseRules& sparse = config.schema.sparse;
      const bool hashed = index_max > 2'000'000;
      CHECK(sparse.hash_bits == (hashed ? 20 : 0));
      CHECK(sparse.feature_count == (hashed ? 1u << 20 : index_max));
      CHECK(sparse.non_zeros_max == 8);
      CHECK(config.core.run.model.sparse_entries() == sparse.feature_count);
      CHECK(config.schema.classes == std::vector<std::string>{"0", "1", "2"});
      CHECK(config.core.columns_by_name);
    }
    Site site(rows(200));
    site.options.label = "y";
    CHECK(contains(site.error(), "sample.csv: sparse rows (LibSVM) have no named columns"));
    CHECK(contains(Site("1 1:1\n1 2:1\n").error(), "the labels have 1 different values"));
  }

  TEST_CASE("init: of ARFF the last attribute is the label, and words are columns") {
    std::string text =
        "@relation r\n@attribute colour {red, blue}\n@attribute size real\n"
        "@attribute price real\n@data\n";
    for (int i = 0; i < 200; ++i)
      text += format_text("%s,%d,%d.5\n", i % 3 == 0 ? "red" : "blue", i % 7, i % 53);
    Site site(text);
    REQUIRE(site.error() == "");
    const DataSchema schema = site.config().schema;
    CHECK(schema.columns == std::vector<std::string>{"colour=red", "colour=blue", "size"});
    CHECK(schema.label == "price");
    CHECK(schema.label_is_number());
    site.options.force = true;
    site.options.label = "colour";
    REQUIRE(site.error() == "");
    CHECK(site.config().schema.classes == std::vector<std::string>{"blue", "red"});
    CHECK(site.config().schema.columns == std::vector<std::string>{"size", "price"});
  }
}

}  // namespace paceline
