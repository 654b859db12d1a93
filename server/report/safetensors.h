// A trained model as a .safetensors file, which PyTorch, NumPy and others open.
//
// Source: github.com/huggingface/safetensors, "Format": u64 header length, JSON header, tensors.
#pragma once

#include <map>
#include <span>
#include <string>

#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"

namespace paceline {

// Writes every tensor of `layout` under its name, in its shape, as little-endian float32, without
// pads and without gaps; the first starts 64-byte aligned. Atomic and durable (files.h).
//   parameters  [layout.element_count()]
//   metadata    text for the reader ("__metadata__"); must be UTF-8
Status write_safetensors(const std::string& path, const ParameterLayout& layout,
                         std::span<const float> parameters,
                         const std::map<std::string, std::string>& metadata);

}  // namespace paceline
