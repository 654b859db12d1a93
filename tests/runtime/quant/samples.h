// Layouts and updates that codec tests share: every kind of block and every kind of number.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/quant/codec.h"
#include "runtime/quant/dispatch.h"

namespace paceline::test {

// Wide runs with and without a tail, narrow tensors, a tensor of exactly the wide limit.
inline ParameterLayout small_layout() {
  return ParameterLayout::make({{.name = "a.weight", .shape = {50, 100}},
                                {.name = "a.bias", .shape = {50}},
                                {.name = "b.weight", .shape = {64, 64}},
                                {.name = "b.bias", .shape = {300}},
                                {.name = "gain", .shape = {1}}})
      .value();
}

// Two chunks, the border inside a wide run.
inline ParameterLayout large_layout() {
  return ParameterLayout::make({{.name = "a.weight", .shape = {300, 401}},
                                {.name = "a.bias", .shape = {300}},
                                {.name = "b.weight", .shape = {100, 301}},
                                {.name = "b.bias", .shape = {100}}})
      .value();
}

inline float power_of_two(int exponent) {
  const uint32_t bits = static_cast<uint32_t>(exponent + 127) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// One block's worth of numbers around 2^exponent, in one of several tempers.
inline void fill_block(Random& random, int exponent, float* values) {
  const float scale = power_of_two(exponent);
  const uint64_t temper = random.below(8);
  for (size_t i = 0; i < kBlockElements; ++i) {
    const float value = random.symmetric() * scale;
    switch (temper) {
      case 0:  // sparse, with both zeros
        values[i] = random.below(10) == 0 ? value : (i % 2 == 0 ? 0.0f : -0.0f);
        break;
      case 1:  // outliers
        values[i] = random.below(50) == 0 ? value * 64.0f : value;
        break;
      case 2:  // ties of Q8 and equal magnitudes
        values[i] =
            static_cast<float>(static_cast<int64_t>(random.below(509)) - 254) * 0.5f * scale;
        break;
      case 3:  // many orders of magnitude
        values[i] = value * power_of_two(-static_cast<int>(random.below(30)));
        break;
      default:
        values[i] = value;
    }
  }
}

// An update with +0 pads: most blocks between 2^-20 and 2^4, some at the limits of the flush and of
// the zero block, some all zero.
inline std::vector<float> sample_update(const ParameterLayout& layout, uint64_t seed,
                                        uint64_t stream) {
  Random random(seed, stream);
  std::vector<float> update(layout.element_count());
  for (size_t block = 0; block < layout.block_count(); ++block) {
    int exponent = static_cast<int>(random.below(25)) - 20;
    const uint64_t kind = random.below(40);
    if (kind == 0) continue;
    if (kind == 1) exponent = -79 - static_cast<int>(random.below(4));
    if (kind == 2) exponent = -85 - static_cast<int>(random.below(10));
    if (kind == 3) exponent = -120;
    fill_block(random, exponent, update.data() + block * kBlockElements);
  }
  for (const BlockRun& run : layout.runs())
    for (size_t i = run.element_count; i < size_t{run.block_count} * kBlockElements; ++i)
      update[size_t{run.first_block} * kBlockElements + i] = 0.0f;
  return update;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Runs the body once with each kernel set that this CPU has.
template <class Body>
void on_every_kernel_set(Body body) {
  for (const KernelSet* set : kernel_sets()) {
    if (!kernel_set_runs(*set)) continue;
    use_kernels(*set);
    body(*set);
  }
}

}  // namespace paceline::test
