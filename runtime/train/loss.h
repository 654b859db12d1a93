// Softmax cross entropy: the loss of every net here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace paceline {

// Turns outputs into probabilities, row by row, and gives each row's loss, -ln p[label].
//   outputs     [losses.size()][class_count]; overwritten by the probabilities
//   labels      each < class_count
// Equal bytes on every machine. A row with a NaN or +inf gives NaN.
void softmax_cross_entropy(size_t class_count, std::span<const int32_t> labels,
                           std::span<float> outputs, std::span<float> losses);

// Gradient of the mean loss by the outputs, from the probabilities, in place.
void softmax_gradient(size_t class_count, std::span<const int32_t> labels,
                      std::span<float> probabilities);

// Index of the first largest value; NaN is never larger.
size_t first_largest(std::span<const float> values);

// round(loss * 2^16) with the loss clamped to [0, 64); NaN counts as the largest.
uint64_t loss_fixed16(float loss);

}  // namespace paceline
