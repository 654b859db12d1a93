// Samples that are several rows of a table, one after another in time.
//
// A window is an index into the rows, which are held once; what it looks like to a net is
// [columns][rows], as conv1d wants a signal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace paceline {

struct WindowRules {
  uint32_t rows = 1;  // of a window
  uint32_t stride = 1;
  uint32_t horizon = 0;  // the label is that many rows behind the window; 0: of its own rows
  std::string time;      // a column; empty: there is none
  double time_unit_s = 1;
  double gap_max = 0;  // between neighbours: seconds, or without `time` rows that were left out

  bool used() const { return rows > 1 || horizon > 0; }
  // Rows that one sample is made of, its label's with them: two samples whose spans do not meet
  // share nothing.
  uint32_t span() const { return rows + horizon; }
};

// Where windows lie in a series of rows, told row by row.
class WindowCutter {
 public:
  explicit WindowCutter(const WindowRules& rules) : rules_(rules) {}

  // A row came that does not count.
  void leave_out() { ++left_out_; }
  // A row that counts. True: the newest span() rows are a sample. A row that was left out, a gap
  // and a time that goes back let nothing reach over them.
  //   time_s  where the rules name a time
  bool add(std::optional<double> time_s);

  uint64_t break_count() const { return break_count_; }
  uint64_t longest_run() const { return longest_run_; }

 private:
  WindowRules rules_;
  uint64_t left_out_ = 0;  // since the last row that counted
  uint64_t run_ = 0;       // rows without a break
  uint64_t break_count_ = 0;
  uint64_t longest_run_ = 0;
  std::optional<double> last_time_s_;
};

// rows     [window][width], from the oldest on
// scale, offset  one or `width` of each
// sample   [width][window], value * scale + offset, one rounding each
void lay_out_window(std::span<const float> rows, size_t width, std::span<const float> scale,
                    std::span<const float> offset, std::span<float> sample);

// The label of most; of equally many the one that comes last.
//   labels  not empty, each below counts.size()
//   counts  all 0, and so again afterwards
int32_t label_of_window(std::span<const int32_t> labels, std::span<uint32_t> counts);

}  // namespace paceline
