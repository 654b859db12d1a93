#include "server/report/plot.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/status.h"
#include "server/report/svg_text.h"

namespace paceline {

namespace {

// Okabe and Ito's colours, told apart with any colour vision, without the yellow that white
// swallows.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#444444"};

constexpr double kPanelWidth = 480;
constexpr double kPlotHeight = 280;
constexpr double kMarginLeft = 72;
constexpr double kMarginRight = 28;
constexpr double kPanelTitleHeight = 34;
constexpr double kAxisHeight = 52;
constexpr double kTitleHeight = 40;
constexpr double kLegendRowHeight = 22;
// More points than a panel has pixels only make the file slow.
constexpr size_t kPointsMax = 2000;

struct Box {
  double left, top, width, height;
};

constexpr SvgStyle kCentred{.anchor = "middle"};
constexpr SvgStyle kRightAligned{.anchor = "end"};
constexpr SvgStyle kUpwards{.anchor = "middle", .upwards = true};

size_t character_count(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

// Colours go by the order in which names appear first.
class Palette {
 public:
  explicit Palette(std::span<const PlotPanel> panels) {
    for (const PlotPanel& panel : panels)
      for (const PlotSeries& series : panel.series)
        if (index(series.name) == series_.size()) series_.push_back(&series);
  }
  const char* colour(const std::string& name) const {
    return kColours[index(name) % std::size(kColours)];
  }
  // Beyond the colours, dashes tell series apart.
  const char* dash(const PlotSeries& series) const {
    if (series.dashed) return " stroke-dasharray=\"7 4\"";
    return index(series.name) < std::size(kColours) ? "" : " stroke-dasharray=\"2 3\"";
  }
  std::span<const PlotSeries* const> series() const { return series_; }

 private:
  size_t index(const std::string& name) const {
    size_t i = 0;
    while (i < series_.size() && series_[i]->name != name) ++i;
    return i;
  }
  std::vector<const PlotSeries*> series_;
};

bool is_drawable(const PlotPanel& panel, const PlotPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && (!panel.x_logarithmic || point.x > 0);
}

bool is_drawable(const PlotPanel& panel, const PlotRange& range) {
  return is_drawable(panel, PlotPoint{range.x, range.low}) && std::isfinite(range.high);
}

// The points to draw, evenly thinned out; the last one always stays.
std::vector<PlotPoint> drawable_points(const PlotPanel& panel, const PlotSeries& series) {
  std::vector<PlotPoint> points;
  for (const PlotPoint& point : series.points)
    if (is_drawable(panel, point)) points.push_back(point);
  if (points.size() <= kPointsMax) return points;
  std::vector<PlotPoint> kept;
  for (size_t i = 0; i + 1 < kPointsMax; ++i)
    kept.push_back(points[i * (points.size() - 1) / (kPointsMax - 1)]);
  kept.push_back(points.back());
  return kept;
}

class PanelDrawing {
 public:
  PanelDrawing(const PlotPanel& panel, const Palette& palette, Box box, SvgText* svg)
      : panel_(panel), palette_(palette), box_(box), svg_(*svg) {}

  void draw() {
    svg_.text(box_.left, box_.top - 12, panel_.title,
              {.colour = kSvgText, .size = 14, .bold = true});
    for (const PlotSeries& series : panel_.series)
      points_.push_back(drawable_points(panel_, series));
    if (!find_axes()) {
      svg_.text(box_.left + box_.width / 2, box_.top + box_.height / 2, "no data yet", kCentred);
    } else {
      draw_axes();
      for (const PlotSeries& series : panel_.series) draw_band(series);
      for (size_t i = 0; i < points_.size(); ++i) draw_series(panel_.series[i], points_[i]);
    }
    svg_.line(box_.left, bottom(), box_.left + box_.width, bottom(), kSvgMuted);
    svg_.text(box_.left + box_.width / 2, bottom() + 42, panel_.x_label, kCentred);
    svg_.text(box_.left - 56, box_.top + box_.height / 2, panel_.y_label, kUpwards);
  }

 private:
  double bottom() const { return box_.top + box_.height; }
  double x_of(double value) const { return box_.left + x_axis_.position(value) * box_.width; }
  double y_of(double value) const { return bottom() - y_axis_.position(value) * box_.height; }

  bool find_axes() {
    PlotPoint low{INFINITY, INFINITY}, high{-INFINITY, -INFINITY};
    for (const auto& points : points_)
      for (const PlotPoint& point : points) {
        low = {std::min(low.x, point.x), std::min(low.y, point.y)};
        high = {std::max(high.x, point.x), std::max(high.y, point.y)};
      }
    for (const PlotSeries& series : panel_.series)
      for (const PlotRange& range : series.band) {
        if (!is_drawable(panel_, range)) continue;
        low = {std::min(low.x, range.x), std::min(low.y, range.low)};
        high = {std::max(high.x, range.x), std::max(high.y, range.high)};
      }
    if (low.x > high.x) return false;
    // Time starts at 0 even where the first evaluation came later.
    if (panel_.x_unit == Unit::kSeconds && !panel_.x_logarithmic) low.x = std::min(low.x, 0.0);
    x_axis_ = panel_.x_logarithmic ? logarithmic_axis(low.x, high.x, panel_.x_unit)
                                   : linear_axis(low.x, high.x, panel_.x_unit, 5);
    y_axis_ = linear_axis(low.y, high.y, panel_.y_unit, 5);
    return true;
  }

  void draw_band(const PlotSeries& series) {
    std::string there, back;
    for (const PlotRange& range : series.band) {
      if (!is_drawable(panel_, range)) continue;
      there += format_text("%.1f,%.1f ", x_of(range.x), y_of(range.high));
      back.insert(0, format_text(" %.1f,%.1f", x_of(range.x), y_of(range.low)));
    }
    if (there.empty()) return;
    there.pop_back();
    svg_.add(format_text("<polygon points=\"%s%s\" fill=\"%s\" fill-opacity=\"0.15\"/>\n",
                         there.c_str(), back.c_str(), palette_.colour(series.name)));
  }

  void draw_axes() {
    for (const Tick& tick : y_axis_.ticks) {
      const double y = y_of(tick.value);
      svg_.line(box_.left, y, box_.left + box_.width, y, kSvgGrid);
      svg_.text(box_.left - 8, y + 4, tick.label, kRightAligned);
    }
    double free_from = -INFINITY;
    for (const Tick& tick : x_axis_.ticks) {
      const double x = x_of(tick.value);
      svg_.line(x, bottom(), x, bottom() + (tick.label.empty() ? 3 : 6), kSvgMuted);
      const double half = static_cast<double>(tick.label.size()) * kSvgCharacterWidth / 2;
      if (tick.label.empty() || x - half < free_from) continue;
      svg_.text(x, bottom() + 20, tick.label, kCentred);
      free_from = x + half + 4;
    }
  }

  void draw_series(const PlotSeries& series, const std::vector<PlotPoint>& points) {
    if (points.empty()) return;
    const char* const colour = palette_.colour(series.name);
    std::string path;
    for (const PlotPoint& point : points)
      path += format_text("%.1f,%.1f ", x_of(point.x), y_of(point.y));
    path.pop_back();
    svg_.add(
        format_text("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
                    "stroke-linejoin=\"round\" stroke-linecap=\"round\"%s/>\n",
                    path.c_str(), colour, palette_.dash(series)));
    svg_.add(format_text("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n",
                         x_of(points.back().x), y_of(points.back().y), colour));
  }

  const PlotPanel& panel_;
  const Palette& palette_;
  const Box box_;
  SvgText& svg_;
  std::vector<std::vector<PlotPoint>> points_;
  Axis x_axis_;
  Axis y_axis_;
};

// Returns the height that the rows take.
double draw_legend(const Palette& palette, double width, SvgText* svg) {
  constexpr double kSwatch = 26, kGap = 24;
  double x = kMarginLeft, y = kTitleHeight + 10;
  for (const PlotSeries* series : palette.series()) {
    const double needed =
        kSwatch + 8 + static_cast<double>(character_count(series->name)) * kSvgCharacterWidth;
    if (x > kMarginLeft && x + needed > width - kMarginRight) {
      x = kMarginLeft;
      y += kLegendRowHeight;
    }
    svg->add(
        format_text("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                    "stroke-width=\"3\"%s/>\n",
                    x, y, x + kSwatch, y, palette.colour(series->name), palette.dash(*series)));
    svg->text(x + kSwatch + 8, y + 4, series->name, {.colour = kSvgText});
    x += needed + kGap;
  }
  return y + kLegendRowHeight - kTitleHeight;
}

}  // namespace

std::string plot_svg(const std::string& title, std::span<const PlotPanel> panels) {
  const Palette palette(panels);
  const double width = kPanelWidth * static_cast<double>(std::max<size_t>(panels.size(), 1));
  SvgText body;
  body.text(kMarginLeft, 28, title, {.colour = kSvgText, .size = 17, .bold = true});
  const double top = kTitleHeight + draw_legend(palette, width, &body) + kPanelTitleHeight;
  for (size_t i = 0; i < panels.size(); ++i) {
    const Box box{kPanelWidth * static_cast<double>(i) + kMarginLeft, top,
                  kPanelWidth - kMarginLeft - kMarginRight, kPlotHeight};
    PanelDrawing(panels[i], palette, box, &body).draw();
  }
  const double height = top + kPlotHeight + kAxisHeight;
  return svg_file(title, width, height, body.take());
}

}  // namespace paceline
