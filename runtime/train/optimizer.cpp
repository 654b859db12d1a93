#include "runtime/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"

namespace paceline {
namespace {

// Where no gradient comes, momentum decays without end; below 2^-90 it becomes +0 before it is
// subnormal, which costs many cycles an element on some CPUs and is flushed on others.
constexpr float kSmallestMomentum = 0x1p-90f;
// The same for squares, whose roots are far below any epsilon then, and for what is squared.
constexpr float kSmallestSquare = 0x1p-100f;
constexpr float kSmallestSquared = 0x1p-50f;
constexpr uint32_t kWarmUpSteps = 10;
// More are not told apart: beta^n is nothing beside 1 by then.
constexpr uint32_t kPowerStepsMax = 1u << 24;

inline float magnitude(float value) { return value < 0.0f ? -value : value; }
inline float flushed(float m) { return magnitude(m) < kSmallestMomentum ? 0.0f : m; }
inline float flushed_square(float v) { return v < kSmallestSquare ? 0.0f : v; }
inline float square_of(float g) { return magnitude(g) < kSmallestSquared ? 0.0f : g * g; }

// Element i in lane i % 8, lanes in order; those outside of `ranges` are 0.
double norm_of(std::span<const float> values, std::span<const ElementRange> ranges) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  for (const ElementRange& range : ranges)
    for (size_t i = range.begin; i < range.end; ++i) {
      const double value = static_cast<double>(values[i]);
      sums[i % kLanes] += value * value;
    }
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace

// What all elements of a step have in common.
struct Optimizer::StepFactors {
  float gradient = 1;        // of clipping
  float rate = 0;            // warm-up applied
  float decoupled_rate = 0;  // of the weights themselves
  float momentum = 1;        // rate / c1
  float square = 1;          // 1 / c2
};

std::span<const std::string_view> optimizer_names() {
  static constexpr std::string_view kNames[] = {"sgd",   "nesterov", "adam",
                                                "adamw", "rmsprop",  "adagrad"};
  return kNames;
}

bool OptimizerOptions::keeps_untouched() const {
  const bool forgets = kind == OptimizerKind::kAdam || kind == OptimizerKind::kAdamw ||
                       kind == OptimizerKind::kRmsprop;
  return !forgets && beta1 == 0 && weight_decay == 0;
}

bool is_adaptive(OptimizerKind kind) {
  return kind != OptimizerKind::kSgd && kind != OptimizerKind::kNesterov;
}

Optimizer::Optimizer(const OptimizerOptions& options, size_t element_count,
                     std::span<const ElementRange> decayed)
    : options_(options) {
  state_.momentum.assign(element_count, 0.0f);
  if (is_adaptive(options.kind)) state_.squares.assign(element_count, 0.0f);
  size_t next = 0;
  if (options.weight_decay > 0)
    for (const ElementRange& range : decayed) {
      PACELINE_CHECK(next <= range.begin && range.begin <= range.end && range.end <= element_count);
      if (next < range.begin) segments_.push_back({next, range.begin, 0});
      segments_.push_back({range.begin, range.end, options.weight_decay});
      next = range.end;
    }
  if (next < element_count) segments_.push_back({next, element_count, 0});
}

void Optimizer::step(std::span<const float> gradient, float rate, std::span<float> parameters) {
  PACELINE_CHECK(gradient.size() == state_.momentum.size() &&
                 parameters.size() == state_.momentum.size());
  const ElementRange all{0, gradient.size()};
  const StepFactors factors = next_factors(gradient, {&all, 1}, rate);
  for (const Segment& segment : segments_)
    step_segment(factors, segment, gradient.data(), parameters.data());
}

void Optimizer::step(std::span<const float> gradient, std::span<const ElementRange> touched,
                     float rate, std::span<float> parameters) {
  if (touched.empty()) return step(gradient, rate, parameters);
  PACELINE_CHECK(options_.keeps_untouched() && gradient.size() == state_.momentum.size() &&
                 parameters.size() == gradient.size() && touched.back().end <= gradient.size());
  const StepFactors factors = next_factors(gradient, touched, rate);
  for (const ElementRange& range : touched)
    step_segment(factors, {range.begin, range.end, 0}, gradient.data(), parameters.data());
}

Optimizer::StepFactors Optimizer::next_factors(std::span<const float> gradient,
                                               std::span<const ElementRange> touched, float rate) {
  StepFactors factors;
  factors.rate = factors.decoupled_rate = rate;
  if (options_.clip > 0) {
    const double norm = norm_of(gradient, touched), clip = static_cast<double>(options_.clip);
    // A norm that is not finite is left to whoever finds the update not finite.
    if (norm > clip && std::isfinite(norm)) factors.gradient = static_cast<float>(clip / norm);
  }
  if (!is_adaptive(options_.kind)) return factors;
  if (state_.steps < kPowerStepsMax) {
    ++state_.steps;
    multiply_powers(1);
  }
  if (state_.steps < kWarmUpSteps)
    factors.rate *= static_cast<float>(state_.steps) / static_cast<float>(kWarmUpSteps);
  factors.momentum = static_cast<float>(static_cast<double>(factors.rate) / (1.0 - power1_));
  if (options_.kind != OptimizerKind::kAdagrad)
    factors.square = static_cast<float>(1.0 / (1.0 - power2_));
  return factors;
}

void Optimizer::multiply_powers(uint32_t steps) {
  constexpr double kSmallestPower = 1e-30;  // nothing beside 1
  for (uint32_t step = 0; step < steps && power1_ + power2_ > 0; ++step) {
    power1_ *= static_cast<double>(options_.beta1);
    power2_ *= static_cast<double>(options_.beta2);
    if (power1_ < kSmallestPower) power1_ = 0;
    if (power2_ < kSmallestPower) power2_ = 0;
  }
}

void Optimizer::step_segment(const StepFactors& factors, const Segment& segment,
                             const float* gradient, float* parameters) {
  const float* __restrict from = gradient;
  float* __restrict m = state_.momentum.data();
  float* __restrict v = state_.squares.data();
  float* __restrict w = parameters;
  const float beta1 = options_.beta1, beta2 = options_.beta2;
  const float new1 = 1.0f - beta1;
  const bool sums = options_.kind == OptimizerKind::kAdagrad;  // of squares, for ever
  const float old2 = sums ? 1.0f : beta2, new2 = sums ? 1.0f : 1.0f - beta2;
  const float epsilon = options_.epsilon, rate = factors.rate;
  const bool decoupled = options_.kind == OptimizerKind::kAdamw;
  const float decay = decoupled ? 0.0f : segment.decay;
  const float shrink = decoupled ? factors.decoupled_rate * segment.decay : 0.0f;
  const auto gradient_of = [&](size_t i) { return factors.gradient * from[i] + decay * w[i]; };
  const auto divisor_of = [&](size_t i, float g) {
    v[i] = flushed_square(old2 * v[i] + new2 * square_of(g));
    return std::sqrt(v[i] * factors.square) + epsilon;
  };
  switch (options_.kind) {
    case OptimizerKind::kSgd:
      for (size_t i = segment.begin; i < segment.end; ++i) {
        m[i] = flushed(beta1 * m[i] + gradient_of(i));
        w[i] -= rate * m[i];
      }
      return;
    case OptimizerKind::kNesterov:
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const float g = gradient_of(i);
        m[i] = flushed(beta1 * m[i] + g);
        w[i] -= rate * (g + beta1 * m[i]);
      }
      return;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const float g = gradient_of(i);
        m[i] = flushed(beta1 * m[i] + new1 * g);
        const float divisor = divisor_of(i, g);
        w[i] -= shrink * w[i];
        w[i] -= factors.momentum * m[i] / divisor;
      }
      return;
    case OptimizerKind::kRmsprop:
    case OptimizerKind::kAdagrad:
      for (size_t i = segment.begin; i < segment.end; ++i) {
        const float g = gradient_of(i);
        const float divisor = divisor_of(i, g);
        m[i] = flushed(beta1 * m[i] + g / divisor);
        w[i] -= rate * m[i];
      }
      return;
  }
  PACELINE_CHECK(false);
}

void Optimizer::decay(uint32_t steps) {
  float factor = 1.0f;
  for (uint32_t step = 0; step < steps && factor != 0.0f; ++step)
    factor = flushed(factor * options_.beta1);
  for (float& m : state_.momentum) m = flushed(m * factor);
}

void Optimizer::drop() {
  std::fill(state_.momentum.begin(), state_.momentum.end(), 0.0f);
  std::fill(state_.squares.begin(), state_.squares.end(), 0.0f);
  state_.steps = 0;
  power1_ = power2_ = 1;
}

bool Optimizer::restore(OptimizerState state) {
  const bool legal = std::none_of(state.squares.begin(), state.squares.end(),
                                  [](float v) { return !(v >= 0.0f); });
  if (state.momentum.size() != state_.momentum.size() ||
      state.squares.size() != state_.squares.size() || state.steps > kPowerStepsMax || !legal) {
    drop();
    return false;
  }
  state_ = std::move(state);
  power1_ = power2_ = 1;
  multiply_powers(state_.steps);
  return true;
}

}  // namespace paceline
