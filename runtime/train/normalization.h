// Mean 0 and variance 1 over groups of a row's values, in plain loops: what group_norm and
// layer_norm have in common. No statistics travel or outlive a row (Wu and He 2018,
// arXiv:1803.08494; Ba, Kiros and Hinton 2016, arXiv:1607.06450).
//
//   y = (1 + scale) (x - mean) / sqrt(variance + epsilon) + bias
//
// What is trained is the scale's distance from 1, so that both tensors start at zero, and a keep
// factor draws the scale to 1.
#pragma once

#include <cstddef>

#include "runtime/train/layer.h"

namespace paceline {

inline constexpr LayerFraction kNormalizationFractions[] = {
    {"epsilon", &LayerSpec::epsilon, 1e-5f, 1e-8f, 1.0f}};

struct Normalization {
  size_t groups = 1;     // of a row
  size_t group = 0;      // consecutive values that are made alike
  size_t per_scale = 1;  // consecutive values that share a scale and a bias
  float epsilon = 0;
};

// <name>.scale and <name>.bias, of so many elements.
void append_normalization(const LayerSpec& spec, uint32_t scales, std::vector<TensorSpec>& tensors);
void normalization_forward(const Normalization& n, const ForwardPass& pass);
void normalization_backward(const Normalization& n, const BackwardPass& pass);

}  // namespace paceline
