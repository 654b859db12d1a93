// Who did what when, as SVG: a lane for each worker, a colour for each thing to do.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace paceline {

// In order of their colours and of the legend.
enum class LaneUse { kCompute, kEvaluate, kSend, kFetch, kWait, kDiscarded };

struct LaneSpan {
  size_t lane = 0;
  LaneUse use = LaneUse::kCompute;
  double from = 0;  // seconds
  double to = 0;
};

// Lanes from top to bottom. A place of the picture shows what took most of its time, so the file
// stays small however many spans there are. Spans of other lanes or times are left out.
std::string timeline_svg(const std::string& title, std::span<const std::string> lanes,
                         std::span<const LaneSpan> spans, double seconds);

}  // namespace paceline
