// Charts as SVG: panels side by side, one legend, nothing from outside the file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/report/ticks.h"

namespace paceline {

struct PlotPoint {
  double x = 0;
  double y = 0;
};

struct PlotRange {
  double x = 0;
  double low = 0;
  double high = 0;
};

struct PlotSeries {
  std::string name;  // the same name has the same colour in every panel
  bool dashed = false;
  std::vector<PlotPoint> points = {};  // drawn in this order; what is not finite is left out
  std::vector<PlotRange> band = {};    // shaded behind the line, likewise
};

struct PlotPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  Unit x_unit = Unit::kNone;
  Unit y_unit = Unit::kNone;
  bool x_logarithmic = false;  // leaves out points with x <= 0
  std::vector<PlotSeries> series;
};

// A complete SVG file. Text may hold anything: it is escaped, and what is not UTF-8 is replaced.
std::string plot_svg(const std::string& title, std::span<const PlotPanel> panels);

}  // namespace paceline
