// What a net's outputs are held against: softmax cross entropy for classes, the squared or the
// Huber loss for numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace paceline {

enum class LossKind : uint8_t { kSoftmax, kMse, kHuber };
std::span<const std::string_view> loss_names();  // as a run's file has them, in the order above

// How a training loss departs from the plain one.
struct LossOptions {
  LossKind kind = LossKind::kSoftmax;
  float huber_delta = 1;  // errors beyond it count in proportion, not squared
  // The rest is of softmax alone.
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

// Turns outputs into errors, output - target, and gives each row's loss, the mean over its outputs
// of e^2 (mse), or of e^2 / 2 up to delta and delta (|e| - delta / 2) beyond (huber).
//   targets, outputs  [losses.size()][a row's outputs]; outputs are overwritten
void regression_loss(const LossOptions& options, std::span<const float> targets,
                     std::span<float> outputs, std::span<float> losses);

// Gradient of the mean loss by the outputs, from the errors, in place.
void regression_gradient(const LossOptions& options, std::span<float> errors);

// Index of the first largest value; NaN is never larger.
size_t first_largest(std::span<const float> values);

// round(loss * 2^16) with the loss clamped to [0, 64); NaN counts as the largest.
uint64_t loss_fixed16(float loss);

}  // namespace paceline
