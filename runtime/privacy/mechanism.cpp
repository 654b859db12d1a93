#include "runtime/privacy/mechanism.h"

#include <algorithm>
#include <cmath>

namespace paceline {

namespace {

constexpr int kSdLog2 = 20;
constexpr double kSd = 1 << kSdLog2;
constexpr double kShorter = 1 - 0x1p-30;  // where rounding left an update a hair too long

int64_t on_grid(float value, double scale) {
  return static_cast<int64_t>(static_cast<double>(value) * scale);
}

// Of the values on the grid; too long for the sum stays too long.
uint64_t squares_on_grid(std::span<const ElementRange> trained, std::span<const float> update,
                         double scale, uint64_t most) {
  uint64_t sum = 0;
  for (const ElementRange& range : trained)
    for (size_t i = range.begin; i < range.end && sum <= most; ++i) {
      const int64_t value = on_grid(update[i], scale);
      sum += static_cast<uint64_t>(value * value);
    }
  return sum;
}

}  // namespace

Status make_private(const PrivacySpec& privacy, std::span<const ElementRange> trained,
                    const RandomBytes& bytes, std::span<float> update) {
  double squares = 0;
  for (const ElementRange& range : trained)
    for (size_t i = range.begin; i < range.end; ++i)
      squares += static_cast<double>(update[i]) * static_cast<double>(update[i]);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm))
    return fail(Code::kInvalidArgument, "the update holds a value that is not finite");

  const double step = privacy.noise * privacy.clip / kSd;  // of the grid, in weight units
  const double clip = kSd / privacy.noise;                 // in steps
  double scale = (norm > privacy.clip ? privacy.clip / norm : 1.0) / step;
  const auto most = static_cast<uint64_t>(clip * clip);
  while (squares_on_grid(trained, update, scale, most) > most) scale *= kShorter;

  DiscreteGaussian gaussian(kSdLog2, bytes);
  size_t done = 0;
  for (const ElementRange& range : trained) {
    std::ranges::fill(update.subspan(done, range.begin - done), 0.0f);
    done = range.end;
    for (float& value : update.subspan(range.begin, range.end - range.begin))
      value =
          static_cast<float>(static_cast<double>(on_grid(value, scale) + gaussian.draw()) * step);
  }
  std::ranges::fill(update.subspan(done), 0.0f);
  return {};
}

}  // namespace paceline
