#include "server/command_compress.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "runtime/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

using namespace paceline;

namespace {

constexpr const char* kRun =
    "[model]\ninput = [2]\nclasses = 2\n[[layer]]\ntype = \"dense\"\nunits = 2\n"
    "[training]\nbatch = 8\nrate = 0.8\n[communication]\npace = \"bsp\"\n";

// Two columns; the label says whether the first is the larger.
std::string table(size_t rows) {
  Random random(test::seed(), 9);
  std::string text = "a,b,larger\n";
  for (size_t i = 0; i < rows; ++i) {
    const double a = random.unit(), b = random.unit();
    text += format_text("%.4f,%.4f,%d\n", a, b, a > b ? 1 : 0);
  }
  return text;
}

struct Comparison {
  Status status;
  std::vector<nlohmann::json> rows;
};

Comparison compare(CompressOptions options, const char* run, size_t rows) {
  const test::TempFolder folder;
  options.run_file = folder.write("run.toml", run);
  options.data_file = folder.write("rows.csv", table(rows));
  options.rounds = 40;
  options.seeds = 2;
  options.json = true;
  Comparison result;
  result.status = compare_codecs(options, [&](const std::string& line) {
    result.rows.push_back(nlohmann::json::parse(line));
  });
  return result;
}

}  // namespace

TEST_SUITE("server/command_compress") {
  TEST_CASE("raw32 comes first and loses nothing; every other codec is held against it") {
    const Comparison all = compare({}, kRun, 400);
    REQUIRE_MESSAGE(all.status.ok(), all.status.message());
    REQUIRE(all.rows.size() >= 7);
    CHECK(all.rows[0]["codec_up"] == "raw32");
    CHECK(all.rows[0]["points_lost"] == 0.0);
    CHECK(all.rows[0]["accuracy"] > 0.9);
    for (const nlohmann::json& row : all.rows) {
      const double exact = all.rows[0]["accuracy"], own = row["accuracy"];
      CHECK(row["points_lost"].get<double>() == doctest::Approx(100 * (exact - own)));
      CHECK(row["bytes_up"] <= all.rows[0]["bytes_up"]);
      if (row["codec_up"] == "s1") CHECK(row["codec_down"] == "q8");
    }
  }

  TEST_CASE("the same options give the same figures") {
    CompressOptions options;
    options.codecs = {"q8"};
    options.dirichlet_alpha = 0.5;
    const Comparison once = compare(options, kRun, 300), again = compare(options, kRun, 300);
    REQUIRE(once.status.ok());
    REQUIRE(once.rows.size() == 2);
    CHECK(once.rows == again.rows);
  }

  TEST_CASE("what can't be compared is refused with what to change") {
    CompressOptions options;
    options.codecs = {"zip"};
    CHECK(compare(options, kRun, 300).status.message().find("zip") != std::string::npos);
    options.codecs = {"q8"};
    CHECK(compare(options, kRun, 30).status.message().find("40 will do") != std::string::npos);
    const std::string wide = std::string(kRun).replace(std::string(kRun).find("[2]"), 3, "[3]");
    CHECK(compare(options, wide.c_str(), 300).status.message().find("the model takes 3") !=
          std::string::npos);
  }

  TEST_CASE("a run that diverges by itself says so instead of a table") {
    std::string run =
        "[training]\nrate = 100\nmomentum = 0.99\n[model]\ninput = [2]\nclasses = 2\n";
    for (int i = 0; i < 6; ++i)
      run += "[[layer]]\ntype = \"dense\"\nunits = 32\n[[layer]]\ntype = \"relu\"\n";
    run += "[[layer]]\ntype = \"dense\"\nunits = 2\n";
    const Comparison none = compare({}, run.c_str(), 300);
    CHECK(none.rows.empty());
    CHECK(none.status.message().find("lower [training] rate") != std::string::npos);
  }
}
