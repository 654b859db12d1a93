#include "server/report/plot.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <string_view>

#include "runtime/base/utf8.h"

namespace paceline {

namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

// Every tag is closed in order, every & begins an entity, all is UTF-8 without control characters.
bool is_well_formed(std::string_view xml) {
  if (!is_utf8(xml)) return false;
  std::vector<std::string_view> open;
  for (size_t i = 0; i < xml.size(); ++i) {
    if (static_cast<unsigned char>(xml[i]) < 0x20 && xml[i] != '\n') return false;
    if (xml[i] == '&') {
      const std::string_view entity = xml.substr(i, xml.find(';', i) - i);
      if (entity != "&lt" && entity != "&gt" && entity != "&amp" && entity != "&quot") return false;
    }
    if (xml[i] != '<') continue;
    const size_t end = xml.find('>', i);
    if (end == std::string_view::npos) return false;
    const std::string_view tag = xml.substr(i + 1, end - i - 1);
    if (count_of(tag, "\"") % 2 != 0 || contains(tag, "<")) return false;
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
    i = end;
  }
  return open.empty();
}

std::vector<PlotPoint> polyline(std::string_view svg, size_t index) {
  size_t at = 0;
  for (size_t i = 0; i <= index; ++i) at = svg.find("<polyline points=\"", at + 1);
  REQUIRE(at != std::string_view::npos);
  const char* text = svg.data() + at + 18;
  std::vector<PlotPoint> points;
  for (char* end = nullptr; *text != '"'; text = end) {
    const double x = std::strtod(text, &end);
    points.push_back({x, std::strtod(end + 1, &end)});
  }
  return points;
}

PlotPanel panel_of(std::vector<PlotSeries> series) {
  return {"title", "x", "y", Unit::kSeconds, Unit::kPercent, false, std::move(series)};
}

std::string plot(const PlotPanel& panel) { return plot_svg("plot", {&panel, 1}); }

}  // namespace

TEST_SUITE("report/plot") {
  TEST_CASE("plot: points keep their order and proportion, and up is up") {
    const std::string svg = plot(panel_of({{"a", false, {{0, 0.0}, {50, 0.5}, {100, 1.0}}}}));
    CHECK(is_well_formed(svg));
    const std::vector<PlotPoint> points = polyline(svg, 0);
    REQUIRE(points.size() == 3);
    CHECK(points[1].x == doctest::Approx((points[0].x + points[2].x) / 2));
    CHECK(points[1].y == doctest::Approx((points[0].y + points[2].y) / 2));
    CHECK(points[2].x > points[0].x);
    CHECK(points[2].y < points[0].y);
    CHECK(contains(svg, ">100 %<"));
    CHECK(contains(svg, ">40 s<"));
  }

  TEST_CASE("plot: a logarithmic axis gives equal factors equal lengths and leaves 0 out") {
    PlotPanel panel = panel_of({{"a", false, {{0, 0.1}, {1e3, 0.2}, {1e5, 0.3}, {1e7, 0.4}}}});
    panel.x_unit = Unit::kBytes;
    panel.x_logarithmic = true;
    const std::string svg = plot(panel);
    const std::vector<PlotPoint> points = polyline(svg, 0);
    REQUIRE(points.size() == 3);
    CHECK(std::abs(points[2].x - points[1].x - (points[1].x - points[0].x)) < 0.25);
    CHECK(contains(svg, ">10 MB<"));
  }

  TEST_CASE("plot: nothing to draw, points that are not finite, one point, no panel at all") {
    CHECK(contains(plot(panel_of({})), "no data yet"));
    const std::string hollow =
        plot(panel_of({{"a", false, {{NAN, 1}, {1, INFINITY}}}, {"b", false, {}}}));
    CHECK(contains(hollow, "no data yet"));
    CHECK(is_well_formed(hollow));
    const std::string single = plot(panel_of({{"a", false, {{0, 0}, {NAN, NAN}}}}));
    CHECK(is_well_formed(single));
    CHECK(count_of(single, "<circle") == 1);
    CHECK_FALSE(contains(single, "nan"));
    CHECK(is_well_formed(plot_svg("", {})));
  }

  TEST_CASE("plot: a name has one colour in all panels and one line in the legend") {
    const std::vector<PlotPanel> panels{
        panel_of({{"ours", false, {{0, 0}, {1, 1}}}, {"other", true, {{0, 0}, {1, 1}}}}),
        panel_of({{"other", true, {{0, 0}, {1, 1}}}})};
    const std::string svg = plot_svg("two", panels);
    CHECK(count_of(svg, ">other<") == 1);
    // Two curves, two end marks, one legend line.
    CHECK(count_of(svg, "#d55e00") == 5);
    CHECK(count_of(svg, "stroke-dasharray") == 3);
  }

  TEST_CASE("plot: twenty names stay apart and inside the picture") {
    std::vector<PlotSeries> series;
    for (int i = 0; i < 20; ++i)
      series.push_back({"worker number " + std::to_string(i), false, {{0, 0}, {1, 1}}});
    const std::string svg = plot(panel_of(series));
    CHECK(is_well_formed(svg));
    CHECK(count_of(svg, "stroke-dasharray=\"2 3\"") == 2 * 13);
  }

  TEST_CASE("plot: names that try to be markup, controls or broken UTF-8 are only text") {
    const std::string hostile = "<script>\"&'\x01\x1b\xFF\n";
    PlotPanel panel = panel_of({{hostile, false, {{0, 0}, {1, 1}}}});
    panel.title = panel.x_label = panel.y_label = hostile;
    const std::string svg = plot_svg(hostile, {&panel, 1});
    CHECK(is_well_formed(svg));
    CHECK_FALSE(contains(svg, "<script"));
  }

  TEST_CASE("plot: a very long curve is thinned out and keeps its ends") {
    PlotSeries series{"a", false, {}};
    for (int i = 0; i <= 100'000; ++i) series.points.push_back({i * 1.0, i * 1e-5});
    const std::string svg = plot(panel_of({series}));
    CHECK(svg.size() < 100'000);
    const std::vector<PlotPoint> points = polyline(svg, 0);
    const std::vector<PlotPoint> ends =
        polyline(plot(panel_of({{"a", false, {{0, 0}, {100'000, 1}}}})), 0);
    CHECK(points.front().x == ends.front().x);
    CHECK(points.back().x == ends.back().x);
  }
}

}  // namespace paceline
