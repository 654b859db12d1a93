// Dense and convolution on matrix kernels: what their entries in layer.h point to.
#pragma once

#include "runtime/train/gemm.h"
#include "runtime/train/layer.h"

namespace paceline {

uint64_t dense_scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch);
void dense_gemm_forward(const LayerSpec& spec, const GemmKernels& kernels, const ForwardPass& pass);
void dense_gemm_backward(const LayerSpec& spec, const GemmKernels& kernels,
                         const BackwardPass& pass);

uint64_t conv2d_scratch_floats(const LayerSpec& spec, const GemmKernels& kernels, size_t batch);
void conv2d_gemm_forward(const LayerSpec& spec, const GemmKernels& kernels,
                         const ForwardPass& pass);
void conv2d_gemm_backward(const LayerSpec& spec, const GemmKernels& kernels,
                          const BackwardPass& pass);

}  // namespace paceline
