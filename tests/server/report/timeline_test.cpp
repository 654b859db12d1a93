// Lanes of a timeline.
#include "server/report/timeline.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace paceline;

namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr const char* kCompute = "#009e73";
constexpr const char* kWait = "#dddddd";

}  // namespace

TEST_SUITE("report/timeline") {
  TEST_CASE("a span is a bar in its lane and colour, beside the legend's") {
    const std::vector<std::string> lanes = {"one", "<two>"};
    const std::vector<LaneSpan> spans = {{0, LaneUse::kCompute, 0, 5}, {1, LaneUse::kWait, 5, 10}};
    const std::string svg = timeline_svg("run", lanes, spans, 10);
    CHECK(count_of(svg, kCompute) == 2);
    CHECK(count_of(svg, kWait) == 2);
    CHECK(count_of(svg, "width=\"500.0\"") == 2);
    CHECK(svg.find("&lt;two&gt;") != std::string::npos);
  }

  TEST_CASE("a million short spans make a small file, and a place shows what took most of it") {
    std::vector<LaneSpan> spans;
    for (int i = 0; i < 1'000'000; ++i) {
      const double at = i * 1e-5;
      spans.push_back({0, LaneUse::kCompute, at, at + 0.7e-5});
      spans.push_back({0, LaneUse::kWait, at + 0.7e-5, at + 1e-5});
    }
    const std::string svg = timeline_svg("run", std::vector<std::string>{"one"}, spans, 10);
    CHECK(svg.size() < 10'000);
    CHECK(count_of(svg, kCompute) == 2);
    CHECK(count_of(svg, kWait) == 1);
  }

  TEST_CASE("spans that are nowhere are left out, and no length gives no drawing") {
    const std::vector<std::string> lanes = {"one"};
    const std::vector<LaneSpan> spans = {
        {1, LaneUse::kCompute, 0, 5},   {0, LaneUse::kCompute, 11, 12},
        {0, LaneUse::kCompute, -1, 5},  {0, LaneUse::kCompute, NAN, 5},
        {0, LaneUse::kCompute, 5, NAN}, {0, LaneUse::kCompute, 5, 4}};
    CHECK(count_of(timeline_svg("run", lanes, spans, 10), kCompute) == 1);
    for (const double seconds : {0.0, -1.0, double{NAN}, double{INFINITY}}) {
      const std::string svg = timeline_svg("run", lanes, spans, seconds);
      CHECK(svg.ends_with("</svg>\n"));
      CHECK(svg.find("nan") == std::string::npos);
    }
  }
}
