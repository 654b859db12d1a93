// A second implementation of every layer's forward pass, in double and written from the definition:
// the oracle of the gradient tests.
#pragma once

#include <span>
#include <vector>

#include "runtime/train/model.h"
#include "runtime/train/trainer.h"

namespace paceline::test {

// Mean loss of the batch: softmax cross entropy, or one of numbers.
double naive_loss(const ModelSpec& spec, std::span<const double> parameters,
                  std::span<const float> features, const Targets& targets,
                  const LossOptions& loss = {});

// Its derivative by parameter `index`, from a difference of two losses.
double naive_derivative(const ModelSpec& spec, std::span<const float> parameters, size_t index,
                        std::span<const float> features, const Targets& targets,
                        const LossOptions& loss = {});

}  // namespace paceline::test
