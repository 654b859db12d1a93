#include "runtime/base/config.h"

#include <doctest/doctest.h>

using namespace paceline;

namespace {

struct Settings {
  double rate = 0.5;
  uint32_t batch = 32;
  uint64_t rounds = 7;
  bool fast = false;
  std::string name = "none";
};

Status read(const std::string& text, Settings* settings) {
  PACELINE_ASSIGN(const Config config, Config::parse(text, "run.toml"));
  PACELINE_TRY(config.only({"training", "server"}));
  ConfigSection section = config.section("training");
  section.read("rate", &settings->rate, 0, 1);
  section.read("batch", &settings->batch, 1, 4096);
  section.read("rounds", &settings->rounds, 0, UINT64_MAX);
  section.read("fast", &settings->fast);
  section.read("name", &settings->name);
  return section.finish();
}

std::string message(const std::string& text) {
  Settings settings;
  const Status status = read(text, &settings);
  CHECK(status.code() == Code::kInvalidArgument);
  return status.message();
}

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("base/config") {
  TEST_CASE("values that are there are read, absent ones and absent tables change nothing") {
    Settings settings;
    REQUIRE(
        read("[training]\nrate = 1\nbatch = 4096\nfast = true\nname = \"a b\"\n", &settings).ok());
    CHECK(settings.rate == 1);  // a whole number is a number
    CHECK(settings.batch == 4096);
    CHECK(settings.rounds == 7);
    CHECK(settings.fast);
    CHECK(settings.name == "a b");
    Settings untouched;
    REQUIRE(read("", &untouched).ok());
    CHECK(untouched.batch == 32);
  }

  TEST_CASE("a value of another type or out of its bounds is refused with place and range") {
    CHECK(message("[training]\nbatch = 5000\n") ==
          "run.toml:2:9: training.batch has to be a whole number from 1 to 4096");
    CHECK(message("[training]\n\n  rate = 1.5\n") ==
          "run.toml:3:10: training.rate has to be a number from 0 to 1");
    for (const char* wrong :
         {"batch = 0", "batch = -1", "batch = 32.0", "batch = \"32\"", "batch = true", "rate = nan",
          "rate = inf", "rate = -0.1", "rate = \"0.1\"", "rate = true", "fast = 1",
          "fast = \"yes\"", "name = 3", "name = [\"a\"]", "rounds = -1"})
      CHECK_MESSAGE(contains(message(std::string("[training]\n") + wrong), "run.toml:2:"),
                    std::string(wrong));
  }

  TEST_CASE("a value that is refused leaves the setting as it was, and the first error counts") {
    Settings settings;
    const Status status = read("[training]\nrate = 7\nbatch = 0\n", &settings);
    CHECK(contains(status.message(), "training.rate"));
    CHECK(settings.rate == 0.5);
    CHECK(settings.batch == 32);
  }

  TEST_CASE("an unknown key or table is refused with its line and the nearest name") {
    CHECK(message("[training]\nrate = 0.1\nbacth = 3\n") ==
          "run.toml:3:1: [training] has no key 'bacth'; did you mean 'batch'?");
    CHECK(message("\n[trainin]\nrate = 0.1\n") ==
          "run.toml:2:1: no table is named 'trainin'; did you mean 'training'?");
    CHECK(contains(message("[training]\nqqqqqqqq = 3\n"), "known: rate, batch, rounds"));
    CHECK(message("rate = 0.1\n").rfind("run.toml:1:", 0) == 0);
  }

  TEST_CASE("tables of an array are read one by one, and name their places") {
    const Config config =
        Config::parse("[[board]]\nstep = 1\n[[board]]\nstep = 2\nstpe = 3\n", "f.toml").value();
    std::vector<ConfigSection> boards = config.sections("board");
    REQUIRE(boards.size() == 2);
    double step = 0;
    boards[1].read("step", &step, 0, 10);
    CHECK(step == 2);
    CHECK(boards[1].has("step"));
    CHECK_FALSE(boards[1].has("other"));
    CHECK(boards[1].place_of("step") == "f.toml:4:8");
    CHECK(boards[1].place_of("other") == "f.toml:3:1");
    CHECK(boards[1].finish().message() ==
          "f.toml:5:1: [board] has no key 'stpe'; did you mean 'step'?");
    CHECK(config.sections("nothing").empty());
    CHECK_FALSE(
        Config::parse("board = [1]\n", "f.toml").value().sections("board")[0].finish().ok());
  }

  TEST_CASE("values take the place of a file's, and what they say can be read again") {
    const std::string text =
        with_values("[training]\nrate = 0.1\nbatch = 3 # rows\n",
                    std::vector<ConfigValue>{{"training", "rate", 0.1 + 0.2},
                                             {"training", "seed", uint64_t{7}},
                                             {"data", "file", std::string("a \"b\"")}})
            .value();
    const Config config = Config::parse(text, "f.toml").value();
    double rate = 0;
    uint64_t seed = 0, batch = 0;
    std::string file;
    ConfigSection training = config.section("training");
    training.read("rate", &rate, 0, 1);
    training.read("seed", &seed, 0, 100);
    training.read("batch", &batch, 0, 100);
    CHECK(training.finish().ok());
    config.section("data").read("file", &file);
    CHECK(rate == 0.1 + 0.2);
    CHECK(seed == 7);
    CHECK(batch == 3);
    CHECK(file == "a \"b\"");
    CHECK_FALSE(with_values("a = 1\n", std::vector<ConfigValue>{{"a", "b", 1.0}}).has_value());
    CHECK_FALSE(with_values("a = = 1\n", {}).has_value());
  }

  TEST_CASE("what is no table where one belongs is refused") {
    CHECK(contains(message("training = 3\n"), "'training' has to be a table: [training]"));
    CHECK(contains(message("[[training]]\nrate = 0.1\n"), "has to be a table"));
  }

  TEST_CASE("text that is no TOML is refused with line and column, never thrown") {
    CHECK(message("[training]\nrate = = 3\n").rfind("run.toml:2:8:", 0) == 0);
    for (const char* wrong : {"[training", "[training]\nrate = 1\nrate = 2\n", "\xff\xfe", "a = \"",
                              "[training]\nrate = 99999999999999999999999999\n"})
      CHECK(message(wrong).rfind("run.toml:", 0) == 0);
    CHECK(message("a = " + std::string(10'000, '[')).rfind("run.toml:", 0) == 0);
  }
}
