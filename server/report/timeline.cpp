#include "server/report/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/report/svg_text.h"
#include "server/report/ticks.h"

namespace paceline {

namespace {

struct Use {
  const char* name;
  const char* colour;
};
constexpr std::array<Use, 6> kUses = {{{"compute", "#009e73"},
                                       {"evaluate", "#56b4e9"},
                                       {"send", "#0072b2"},
                                       {"fetch", "#cc79a7"},
                                       {"wait", "#dddddd"},
                                       {"discarded", "#d55e00"}}};

constexpr size_t kColumns = 1000;  // places of a lane
constexpr double kLaneHeight = 22;
constexpr double kLaneGap = 6;
constexpr double kTop = 70;
constexpr double kRight = 24;

using Shares = std::array<double, kUses.size()>;

// How long each use took in each place.
std::vector<Shares> shares_of(size_t lane, std::span<const LaneSpan> spans, double seconds) {
  std::vector<Shares> shares(kColumns, Shares{});
  const double width = seconds / static_cast<double>(kColumns);
  for (const LaneSpan& span : spans) {
    if (span.lane != lane || !(span.to > span.from) || span.from < 0 || span.from >= seconds)
      continue;
    const double end = std::min(span.to, seconds);
    for (auto i = static_cast<size_t>(span.from / width); i < kColumns; ++i) {
      const double left = static_cast<double>(i) * width;
      if (left >= end) break;
      shares[i][static_cast<size_t>(span.use)] +=
          std::max(0.0, std::min(end, left + width) - std::max(span.from, left));
    }
  }
  return shares;
}

// kUses.size(): nothing.
size_t main_use(const Shares& shares) {
  const auto most = std::ranges::max_element(shares);
  return *most > 0 ? static_cast<size_t>(most - shares.begin()) : kUses.size();
}

void draw_lane(double left, double top, const std::vector<Shares>& shares, SvgText* svg) {
  size_t begin = 0;
  for (size_t i = 1; i <= shares.size(); ++i) {
    const size_t use = main_use(shares[begin]);
    if (i < shares.size() && main_use(shares[i]) == use) continue;
    if (use < kUses.size())
      svg->rect(left + static_cast<double>(begin), top, static_cast<double>(i - begin), kLaneHeight,
                kUses[use].colour);
    begin = i;
  }
}

}  // namespace

std::string timeline_svg(const std::string& title, std::span<const std::string> lanes,
                         std::span<const LaneSpan> spans, double seconds) {
  SvgText svg;
  size_t longest = 0;
  for (const std::string& lane : lanes) longest = std::max(longest, lane.size());
  const double left = 24 + static_cast<double>(longest) * kSvgCharacterWidth;
  svg.text(24, 28, title, {.colour = kSvgText, .size = 17, .bold = true});
  double x = left;
  for (const Use& use : kUses) {
    svg.rect(x, 42, 14, 14, use.colour);
    svg.text(x + 20, 54, use.name, {.colour = kSvgText});
    x += 110;
  }
  const bool drawable = std::isfinite(seconds) && seconds > 0;
  double top = kTop;
  for (size_t i = 0; i < lanes.size(); ++i, top += kLaneHeight + kLaneGap) {
    svg.text(left - 8, top + kLaneHeight / 2 + 4, lanes[i], {.anchor = "end"});
    if (drawable) draw_lane(left, top, shares_of(i, spans, seconds), &svg);
  }
  if (drawable) {
    const Axis axis = linear_axis(0, seconds, Unit::kSeconds, 8);
    for (const Tick& tick : axis.ticks) {
      if (tick.value > seconds) continue;
      const double at = left + tick.value / seconds * static_cast<double>(kColumns);
      svg.line(at, kTop - 4, at, top, kSvgGrid);
      svg.text(at, top + 16, tick.label, {.anchor = "middle"});
    }
  }
  return svg_file(title, left + static_cast<double>(kColumns) + kRight, top + 32, svg.take());
}

}  // namespace paceline
