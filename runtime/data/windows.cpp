#include "runtime/data/windows.h"

#include "runtime/base/check.h"

namespace paceline {

bool WindowCutter::add(std::optional<double> time_s) {
  const bool timed = !rules_.time.empty();
  const double bridged = timed ? 0 : rules_.gap_max;
  bool goes_on = static_cast<double>(left_out_) <= bridged;
  if (timed && run_ > 0) {
    PACELINE_CHECK(time_s && last_time_s_);
    goes_on &= *time_s >= *last_time_s_ && *time_s - *last_time_s_ <= rules_.gap_max;
  }
  left_out_ = 0;
  last_time_s_ = time_s;
  if (run_ > 0 && !goes_on) {
    ++break_count_;
    run_ = 0;
  }
  ++run_;
  if (run_ > longest_run_) longest_run_ = run_;
  return run_ >= rules_.span() && (run_ - rules_.span()) % rules_.stride == 0;
}

void lay_out_window(std::span<const float> rows, size_t width, std::span<const float> scale,
                    std::span<const float> offset, std::span<float> sample) {
  PACELINE_CHECK(rows.size() == sample.size() && rows.size() % width == 0);
  const size_t window = rows.size() / width;
  for (size_t column = 0; column < width; ++column) {
    const float factor = scale[scale.size() == 1 ? 0 : column];
    const float shift = offset[offset.size() == 1 ? 0 : column];
    float* out = sample.data() + column * window;
    for (size_t row = 0; row < window; ++row)
      out[row] = rows[row * width + column] * factor + shift;
  }
}

int32_t label_of_window(std::span<const int32_t> labels, std::span<uint32_t> counts) {
  PACELINE_CHECK(!labels.empty());
  const auto count_of = [&](int32_t label) -> uint32_t& {
    return counts[static_cast<size_t>(label)];
  };
  for (const int32_t label : labels) ++count_of(label);
  // From the end, so that of equals the later one is met first.
  int32_t best = labels.back();
  for (size_t i = labels.size(); i-- > 0;)
    if (count_of(labels[i]) > count_of(best)) best = labels[i];
  for (const int32_t label : labels) count_of(label) = 0;
  return best;
}

}  // namespace paceline
