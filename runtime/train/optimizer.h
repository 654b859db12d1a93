// What a gradient does to the parameters on a worker, in weight units: the server never multiplies
// by a rate. With g the gradient, clipped, and W the weights, of which biases are no part:
//
//   sgd       m = beta m + g;                      w -= rate m             (Sutskever et al. 2013)
//   nesterov  m = beta m + g;                      w -= rate (g + beta m)
//   adam      m = beta1 m + (1 - beta1) g;         w -= rate m / c1 / (sqrt(v / c2) + epsilon)
//             v = beta2 v + (1 - beta2) g^2                      (Kingma and Ba 2015)
//   adamw     the same, and before it W -= rate weight_decay W   (Loshchilov and Hutter 2019)
//   rmsprop   v as above;                          w -= rate m
//             m = beta m + g / (sqrt(v / c2) + epsilon)          (Tieleman and Hinton 2012)
//   adagrad   v = v + g^2; the rest as rmsprop, with c2 = 1      (Duchi, Hazan and Singer 2011)
//
// c1 and c2 are 1 - beta^t at the t-th step. In all but adamw, weight_decay adds weight_decay W to
// g. Where v is used, the first steps after a start or a drop take t / 10 of the rate: v knows too
// little then.
//
// Element by element, from +, -, *, / and sqrt alone: the same bytes on every machine. What becomes
// too small is +0, never subnormal. No call but the constructor and restore() allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/base/parameter_layout.h"

namespace paceline {

enum class OptimizerKind : uint8_t { kSgd, kNesterov, kAdam, kAdamw, kRmsprop, kAdagrad };

// By their number.
std::span<const std::string_view> optimizer_names();
// Whether steps are divided by the gradients' size.
bool is_adaptive(OptimizerKind kind);

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;
  float beta1 = 0.9f;  // the momentum of those which call it so
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float clip = 0;  // largest norm of a gradient; 0: any

  // Whether a step leaves elements without a gradient as they are: sgd or adagrad, no momentum, no
  // decay.
  bool keeps_untouched() const;
};

// What the steps so far have left.
struct OptimizerState {
  uint32_t steps = 0;  // since a start or a drop, where there are squares
  std::vector<float> momentum;
  std::vector<float> squares;  // as long as `momentum`; empty if it is not adaptive
};

class Optimizer {
 public:
  // `decayed` ascending, apart.
  Optimizer(const OptimizerOptions& options, size_t element_count,
            std::span<const ElementRange> decayed = {});

  void step(std::span<const float> gradient, float rate, std::span<float> parameters);
  // The same where the gradient is +0 outside of `touched` (ascending, apart; empty: everything),
  // at a cost that is theirs. The options must keep such elements where they are.
  void step(std::span<const float> gradient, std::span<const ElementRange> touched, float rate,
            std::span<float> parameters);
  // momentum *= beta1^steps, for steps that were missed.
  void decay(uint32_t steps);
  void drop();
  float beta() const { return options_.beta1; }

  const OptimizerState& state() const { return state_; }
  // Drops what does not fit these options: false then.
  bool restore(OptimizerState state);
  std::span<const float> momentum() const { return state_.momentum; }
  std::span<float> momentum() { return state_.momentum; }

 private:
  struct Segment {
    size_t begin = 0;
    size_t end = 0;
    float decay = 0;
  };
  struct StepFactors;

  StepFactors next_factors(std::span<const float> gradient, std::span<const ElementRange> touched,
                           float rate);
  void step_segment(const StepFactors& factors, const Segment& segment, const float* gradient,
                    float* parameters);
  void multiply_powers(uint32_t steps);

  OptimizerOptions options_;
  OptimizerState state_;
  std::vector<Segment> segments_;  // all elements
  double power1_ = 1;              // beta1^steps
  double power2_ = 1;
};

}  // namespace paceline
