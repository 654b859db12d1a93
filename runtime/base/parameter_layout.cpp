#include "runtime/base/parameter_layout.h"

#include <algorithm>
#include <set>

#include "runtime/base/check.h"

namespace paceline {

Result<ParameterLayout> ParameterLayout::make(std::vector<TensorSpec> tensors) {
  if (tensors.empty()) return fail(Code::kInvalidArgument, "a model needs at least one tensor");
  if (tensors.size() > kTensorsMax)
    return fail(Code::kResourceExhausted, "%zu tensors, at most %u", tensors.size(), kTensorsMax);

  ParameterLayout layout;
  std::set<std::string> names;
  uint64_t offset = 0;
  for (TensorSpec& tensor : tensors) {
    if (tensor.name.empty() || tensor.name.size() > kNameBytesMax)
      return fail(Code::kInvalidArgument, "tensor name '%.64s': give 1 to %zu characters",
                  tensor.name.c_str(), kNameBytesMax);
    if (!names.insert(tensor.name).second)
      return fail(Code::kInvalidArgument, "two tensors are named '%s'", tensor.name.c_str());
    uint64_t count = 1;
    for (uint32_t dimension : tensor.shape) {
      count *= dimension;
      if (count == 0 || count > kModelElementsMax)
        return fail(count == 0 ? Code::kInvalidArgument : Code::kResourceExhausted,
                    "tensor '%s': needs 1 to %llu elements", tensor.name.c_str(),
                    static_cast<unsigned long long>(kModelElementsMax));
    }
    tensor.offset = offset;
    tensor.count = count;
    layout.parameter_count_ += count;

    const uint32_t first = static_cast<uint32_t>(offset / kBlockElements);
    const uint32_t whole = static_cast<uint32_t>(count / kBlockElements);
    const uint32_t tail = static_cast<uint32_t>(count % kBlockElements);
    const uint32_t blocks = whole + (tail > 0 ? 1 : 0);
    offset += uint64_t{blocks} * kBlockElements;
    if (offset > kModelElementsMax)
      return fail(Code::kResourceExhausted, "the model has more than %llu elements at tensor '%s'",
                  static_cast<unsigned long long>(kModelElementsMax), tensor.name.c_str());
    const bool wide = count >= kWideTensorElements;
    if (wide) {
      layout.runs_.push_back({first, whole, whole * kBlockElements, true});
      if (tail > 0) layout.runs_.push_back({first + whole, 1, tail, false});
    } else {
      layout.runs_.push_back({first, blocks, static_cast<uint32_t>(count), false});
    }
  }
  layout.block_count_ = static_cast<uint32_t>(offset / kBlockElements);
  layout.tensors_ = std::move(tensors);
  return layout;
}

ChunkRange ParameterLayout::chunk(uint32_t index) const {
  PACELINE_CHECK(index < chunk_count());
  const uint32_t first = index * kChunkBlocksMax;
  return {first, std::min(kChunkBlocksMax, block_count_ - first)};
}

}  // namespace paceline
