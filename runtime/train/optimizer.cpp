#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/train/trainer.h"

namespace paceline {
namespace {

// Where no gradient comes, momentum decays without end; below 2^-90 it becomes +0 before it is
// subnormal, which costs many cycles an element on some CPUs and is flushed on others.
constexpr float kSmallestMomentum = 0x1p-90f;

inline float flushed(float m) {
  const float magnitude = m < 0.0f ? -m : m;
  return magnitude < kSmallestMomentum ? 0.0f : m;
}

}  // namespace

Sgd::Sgd(size_t element_count, float beta) : beta_(beta), momentum_(element_count, 0.0f) {}

void Sgd::step(std::span<const float> gradient, float rate, std::span<float> parameters) {
  PACELINE_CHECK(gradient.size() == momentum_.size() && parameters.size() == momentum_.size());
  const float* __restrict g = gradient.data();
  float* __restrict m = momentum_.data();
  float* __restrict w = parameters.data();
  const size_t count = momentum_.size();
  const float beta = beta_;
  for (size_t i = 0; i < count; ++i) {
    const float next = flushed(beta * m[i] + g[i]);
    m[i] = next;
    w[i] -= rate * next;
  }
}

void Sgd::decay(uint32_t steps) {
  float factor = 1.0f;
  for (uint32_t step = 0; step < steps && factor != 0.0f; ++step) factor = flushed(factor * beta_);
  for (float& m : momentum_) m = flushed(m * factor);
}

void Sgd::drop() { std::fill(momentum_.begin(), momentum_.end(), 0.0f); }

}  // namespace paceline
