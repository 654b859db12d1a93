// The pieces that every SVG of a report is made of.
#pragma once

#include <string>
#include <utility>

namespace paceline {

inline constexpr const char* kSvgText = "#333333";
inline constexpr const char* kSvgMuted = "#6b6b6b";
inline constexpr const char* kSvgGrid = "#e4e4e4";
// Text can't be measured here; DejaVu Sans, a wide font, needs about this at 13 px.
inline constexpr double kSvgCharacterWidth = 7.6;

struct SvgStyle {
  const char* anchor = "start";
  const char* colour = kSvgMuted;
  int size = 13;
  bool bold = false;
  bool upwards = false;
};

// Text may hold anything: it is escaped, and what is not UTF-8 is replaced. Colours, anchors and
// add() are taken as they are.
class SvgText {
 public:
  void add(const std::string& text) { svg_ += text; }
  void line(double x1, double y1, double x2, double y2, const char* colour);
  void rect(double left, double top, double width, double height, const char* colour);
  void text(double x, double y, const std::string& text, const SvgStyle& style);
  std::string take() { return std::move(svg_); }

 private:
  std::string svg_;
};

// A complete file around `body`.
std::string svg_file(const std::string& title, double width, double height,
                     const std::string& body);

}  // namespace paceline
