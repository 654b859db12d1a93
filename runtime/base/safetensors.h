// A trained model as a .safetensors file, which PyTorch, NumPy and others open.
//
// Source: github.com/huggingface/safetensors, "Format": u64 header length, JSON header, tensors.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
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

// What a model of a run says of itself: among others "run", the run's description, so that one file
// is all that a prediction needs.
std::map<std::string, std::string> model_metadata(const std::string& run_text, uint32_t checksum);

// A file of unknown origin, held in memory.
class Safetensors {
 public:
  // Errors: kCorrupt for anything that the format does not allow.
  static Result<Safetensors> parse(Bytes file);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The flat vector of `layout`, pads zero. Errors: kCorrupt naming the tensor that is missing, has
  // another shape or type, is not finite, or is no part of the layout.
  Result<std::vector<float>> parameters(const ParameterLayout& layout) const;

 private:
  struct Tensor {
    std::string type;
    std::vector<uint64_t> shape;
    uint64_t begin = 0;  // in data()
    uint64_t end = 0;
  };
  Status read_header(std::string_view text);
  Result<Tensor> read_tensor(class JsonReader* json);

  ByteSpan data() const { return ByteSpan(file_).subspan(data_begin_); }

  Bytes file_;
  size_t data_begin_ = 0;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace paceline
