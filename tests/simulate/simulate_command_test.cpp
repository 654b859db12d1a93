// What `edge_server simulate` prints.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/pace/pace.h"
#include "server/command_simulate.h"

using namespace paceline;

namespace {

nlohmann::json first_line(const std::string& text) {
  return nlohmann::json::parse(text.substr(0, text.find('\n')));
}

size_t lines(const std::string& text) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace

TEST_SUITE("simulate/command") {
  TEST_CASE("one pace as JSON: the figures that the rule gives at best") {
    SimulateOptions options;
    options.oracle = "1,1,2,4";
    options.paces = {"ssp:3"};
    options.json = true;
    const std::string text = simulate_paces(options).value();
    CHECK(lines(text) == 1);
    const nlohmann::json json = first_line(text);
    CHECK(json["pace"] == "ssp:3");
    CHECK(json["iterations"] == 1009);
    CHECK(json["utilisation"].get<double>() == doctest::Approx(0.503).epsilon(0.002));
    CHECK(json["discarded"] == 0);
    CHECK(json["rounds"] == 0);
    CHECK(json["staleness_mean"].get<double>() == doctest::Approx(1.51).epsilon(0.01));
    CHECK(json["lead_max"] == 4);
  }

  TEST_CASE("without a pace all are compared; the same seed gives the same bytes") {
    SimulateOptions options;
    options.oracle = "7x1,3";
    options.seconds = 100;
    options.jitter = 0.1;
    options.slow_share = 0.1;
    const std::string table = simulate_paces(options).value();
    CHECK(lines(table) == paces().size() + 1);
    CHECK(simulate_paces(options).value() == table);
    options.seed = 2;
    CHECK(simulate_paces(options).value() != table);
    options.json = true;
    CHECK(lines(simulate_paces(options).value()) == paces().size());
    CHECK(first_line(simulate_paces(options).value())["workers"] == 8);
  }

  TEST_CASE("what can't be simulated is refused with what to write instead") {
    for (const char* oracle : {"", "a", "1,,2", "1,-1", "0", "0x1", "x1", "1x", "1e3", "nan", "inf",
                               "99999999999", "1048577x1", "2000000x1,2000000x1", "1,1 "}) {
      SimulateOptions options;
      options.oracle = oracle;
      const Result<std::string> text = simulate_paces(options);
      REQUIRE_MESSAGE(!text.has_value(), oracle);
      CHECK(text.error().code() == Code::kInvalidArgument);
      CHECK(text.error().message().find("1,1,2,4") != std::string::npos);
    }
    SimulateOptions options;
    options.oracle = "1,2";
    options.paces = {"sssp"};
    CHECK(simulate_paces(options).error().message().find("there are bsp") != std::string::npos);
    options.paces = {"bsp"};
    options.jitter = 1;
    CHECK(simulate_paces(options).error().message().find("jitter") != std::string::npos);
    options.jitter = 0;
    options.seconds = 0;
    CHECK(simulate_paces(options).error().message().find("--seconds") != std::string::npos);
  }
}
