// While learning, sets each value to 0 with probability `rate` and divides the others by 1 - rate
// (Srivastava et al. 2014); otherwise lets all pass.
//
// Which ones follows from the batch's key and the value's place alone, so the backward pass draws
// them again, and nothing is kept between the two.
#include "runtime/base/random.h"
#include "runtime/train/layer.h"
#include "runtime/train/loops.h"

namespace paceline {
namespace {

constexpr LayerFraction kFractions[] = {{"rate", &LayerSpec::rate, 0.5f, 0.0f, 0.95f}};

// A hash serves four values, with 16 bits each: the rate is met within 2^-16.
void drop(const LayerSpec& spec, uint64_t noise, std::span<float> values) {
  const auto dropped_below = static_cast<uint32_t>(spec.rate * 65536.0f);
  const float scale = 1.0f / (1.0f - spec.rate);
  for (size_t begin = 0; begin < values.size(); begin += 4) {
    uint64_t bits = hash64(noise ^ (begin * 0x2545F4914F6CDD1Dull));
    const size_t end = begin + 4 < values.size() ? begin + 4 : values.size();
    for (size_t i = begin; i < end; ++i, bits >>= 16) {
      const float kept = values[i] * scale;
      values[i] = static_cast<uint32_t>(bits & 0xFFFF) < dropped_below ? 0.0f : kept;
    }
  }
}

void forward(const LayerSpec& spec, const ForwardPass& pass) {
  copy_unless_same(pass.input, pass.output);
  if (pass.noise) drop(spec, *pass.noise, pass.output);
}

void backward(const LayerSpec& spec, const BackwardPass& pass) {
  if (pass.input_gradient.empty()) return;
  copy_unless_same(pass.output_gradient, pass.input_gradient);
  drop(spec, pass.noise, pass.input_gradient);
}

}  // namespace

const LayerType& dropout_layer() {
  static constexpr LayerType type = {.name = "dropout",
                                     .fractions = kFractions,
                                     .in_place = true,
                                     .infer = keep_shape,
                                     .forward = forward,
                                     .backward = backward};
  return type;
}

}  // namespace paceline
