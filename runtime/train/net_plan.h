// The stages of a net, and where in one arena all that they compute lies.
//
// Of n stages, stage i runs forward at step i of the plan, the loss at n, stage i backward at 2n -
// i. What a stage gives stays until its last reader has run, forward or backward. The gradient of
// what several stages read is the sum of theirs, the latest stage first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/train/gemm.h"
#include "runtime/train/layer.h"
#include "runtime/train/memory_plan.h"

namespace paceline {

inline constexpr size_t kNoBuffer = SIZE_MAX;
inline constexpr size_t kModelInput = SIZE_MAX;

struct StageSource {
  size_t stage = kModelInput;  // whose output it is
  size_t features = 0;         // of a row
  // In the backward pass another reader has left its gradient already: this one's is added.
  bool adds = false;
};

// A layer that computes, and the buffers it touches. Layers that only name values anew are none.
struct Stage {
  const LayerSpec* spec = nullptr;
  const LayerType* type = nullptr;
  uint64_t index = 0;
  const TensorSpec* weight = nullptr;
  const TensorSpec* bias = nullptr;
  const TensorSpec* statistics = nullptr;
  std::vector<StageSource> sources;
  size_t output_features = 0;
  bool learns = false;  // it or a stage that it reads has parameters to learn: it runs backward
  uint64_t scratch_floats = 0;
  size_t output = kNoBuffer;
  size_t output_gradient = kNoBuffer;
  size_t forward_scratch = kNoBuffer;
  size_t backward_scratch = kNoBuffer;
  size_t addend = kNoBuffer;  // a gradient on its way to where it is added
};

struct NetPlan {
  std::vector<Stage> stages;
  MemoryPlan memory;
  size_t judged = kNoBuffer;  // probabilities or errors, then the last stage's output gradient
  size_t losses = kNoBuffer;  // of each row
};

// `kernels` is null for the reference. The plan points into `spec`.
NetPlan plan_net(const ModelSpec& spec, size_t batch_max, const GemmKernels* kernels);

}  // namespace paceline
