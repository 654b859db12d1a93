// Softmax cross entropy: the loss of every net here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace paceline {

// How a training loss departs from the plain one.
struct LossOptions {
  // The label's target is 1 - smoothing, and smoothing is spread over all classes (Szegedy et al.
  // 2016, arXiv:1512.00567).
  float smoothing = 0;
  // A row counts as often as its class says; empty: once.
  std::vector<float> class_weights;
};

// Turns outputs into probabilities, row by row, and gives each row's loss, -ln p[label].
//   outputs     [losses.size()][class_count]; overwritten by the probabilities
//   labels      each < class_count
// Equal bytes on every machine. A row with a NaN or +inf gives NaN.
void softmax_cross_entropy(size_t class_count, std::span<const int32_t> labels,
                           std::span<float> outputs, std::span<float> losses,
                           const LossOptions& options = {});

// Gradient of the mean loss by the outputs, from the probabilities, in place.
void softmax_gradient(size_t class_count, std::span<const int32_t> labels,
                      std::span<float> probabilities, const LossOptions& options = {});

// Index of the first largest value; NaN is never larger.
size_t first_largest(std::span<const float> values);

// round(loss * 2^16) with the loss clamped to [0, 64); NaN counts as the largest.
uint64_t loss_fixed16(float loss);

}  // namespace paceline
