#include "runtime/train/loss.h"

#include "runtime/train/math.h"

namespace paceline {
namespace {

float class_weight(const LossOptions& options, int32_t label) {
  return options.class_weights.empty() ? 1.0f : options.class_weights[static_cast<size_t>(label)];
}

}  // namespace

// Passes over the whole batch, not row by row: rows are short, and so the exponentials fill
// vectors.
void softmax_cross_entropy(size_t class_count, std::span<const int32_t> labels,
                           std::span<float> outputs, std::span<float> losses,
                           const LossOptions& options) {
  for (size_t row = 0; row < losses.size(); ++row) {
    const std::span<float> values = outputs.subspan(row * class_count, class_count);
    const float largest = values[first_largest(values)];
    for (float& value : values) value -= largest;
    losses[row] = values[static_cast<size_t>(labels[row])];
    if (options.smoothing > 0) {
      float sum = 0.0f;
      for (float value : values) sum += value;
      losses[row] = (1.0f - options.smoothing) * losses[row] +
                    options.smoothing * (sum / static_cast<float>(class_count));
    }
  }
  for (float& value : outputs) value = exp_nonpositive(value);
  for (size_t row = 0; row < losses.size(); ++row) {
    const std::span<float> values = outputs.subspan(row * class_count, class_count);
    float sum = 0.0f;
    for (float value : values) sum += value;
    losses[row] = class_weight(options, labels[row]) * (log_positive(sum) - losses[row]);
    const float scale = 1.0f / sum;
    for (float& value : values) value *= scale;
  }
}

void softmax_gradient(size_t class_count, std::span<const int32_t> labels,
                      std::span<float> probabilities, const LossOptions& options) {
  const float share = 1.0f / static_cast<float>(labels.size());
  const float elsewhere = options.smoothing / static_cast<float>(class_count);
  for (size_t row = 0; row < labels.size(); ++row) {
    const std::span<float> values = probabilities.subspan(row * class_count, class_count);
    values[static_cast<size_t>(labels[row])] -= 1.0f - options.smoothing;
    if (options.smoothing > 0)
      for (float& value : values) value -= elsewhere;
    if (!options.class_weights.empty())
      for (float& value : values) value *= class_weight(options, labels[row]);
  }
  for (float& value : probabilities) value *= share;
}

std::span<const std::string_view> loss_names() {
  static constexpr std::string_view kNames[] = {"softmax", "mse", "huber"};
  return kNames;
}

void regression_loss(const LossOptions& options, std::span<const float> targets,
                     std::span<float> outputs, std::span<float> losses) {
  const size_t width = outputs.size() / losses.size();
  const float delta = options.huber_delta;
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] -= targets[i];
  for (size_t row = 0; row < losses.size(); ++row) {
    float sum = 0.0f;
    for (const float error : outputs.subspan(row * width, width)) {
      const float size = error < 0 ? -error : error;
      if (options.kind == LossKind::kMse)
        sum += error * error;
      else
        sum += size <= delta ? 0.5f * error * error : delta * (size - 0.5f * delta);
    }
    losses[row] = sum / static_cast<float>(width);
  }
}

void regression_gradient(const LossOptions& options, std::span<float> errors) {
  const float share = 1.0f / static_cast<float>(errors.size());
  const float delta = options.huber_delta;
  for (float& error : errors) {
    if (options.kind == LossKind::kMse)
      error *= 2.0f;
    else if (error > delta)
      error = delta;
    else if (error < -delta)
      error = -delta;
    error *= share;
  }
}

size_t first_largest(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i)
    if (values[i] > values[best]) best = i;
  return best;
}

uint64_t loss_fixed16(float loss) {
  constexpr uint64_t kLargest = 64 * 65536 - 1;
  if (!(loss < 64.0f)) return kLargest;
  if (loss <= 0.0f) return 0;
  const auto rounded = static_cast<uint64_t>(static_cast<double>(loss) * 65536.0 + 0.5);
  return rounded < kLargest ? rounded : kLargest;
}

}  // namespace paceline
