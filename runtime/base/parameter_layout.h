// Where each tensor of a model lies in the one flat vector that is trained, sent and summed.
//
// Every tensor starts at a multiple of kBlockElements; the elements between a tensor's end and the
// next start are pads, zero for ever. A block never spans tensors. The layout follows from the
// model description alone, so both ends derive it and no message carries it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

namespace paceline {

// How a tensor travels and whether an optimizer touches it.
enum class TensorClass : uint8_t {
  kWeight,
  kBias,
  // What batch normalisation has seen, not what is learnt: its update is zero, and it travels
  // beside updates and deltas (train/statistics.h).
  kStatistic,
};

struct TensorSpec {
  std::string name;  // "dense1.weight"
  TensorClass tensor_class = TensorClass::kWeight;
  std::vector<uint32_t> shape;  // row-major; dense weights are [out][in]
  uint64_t offset = 0;          // of the first element in the flat vector; set by ParameterLayout
  uint64_t count = 0;           // elements without pads; set by ParameterLayout
};

// Consecutive blocks of one tensor that are coded alike.
struct BlockRun {
  uint32_t first_block = 0;
  uint32_t block_count = 0;
  // Elements that are parameters; the rest of the last block is pads.
  uint32_t element_count = 0;
  // Wide blocks take the header's codec. Narrow ones (tensors below kWideTensorElements, tails
  // below a whole block) ride as Q8 where that codec is a 1-bit one.
  bool wide = false;
};

inline constexpr uint64_t kWideTensorElements = 4096;

// A contiguous range of whole blocks: the unit of coding, sending and retry.
struct ChunkRange {
  uint32_t first_block = 0;
  uint32_t block_count = 0;
};

// Elements [begin, end) of a flat vector.
struct ElementRange {
  size_t begin = 0;
  size_t end = 0;
};

class ParameterLayout {
 public:
  ParameterLayout() = default;

  // Places `tensors` in order. Errors: kInvalidArgument for an empty list, an empty or repeated
  // name or a zero dimension; kResourceExhausted above kTensorsMax or kModelElementsMax.
  static Result<ParameterLayout> make(std::vector<TensorSpec> tensors);

  std::span<const TensorSpec> tensors() const { return tensors_; }
  // Length of the flat vector, pads included: a multiple of kBlockElements.
  size_t element_count() const { return size_t{block_count_} * kBlockElements; }
  // Parameters without pads.
  uint64_t parameter_count() const { return parameter_count_; }
  uint32_t block_count() const { return block_count_; }
  // Runs in block order; together they cover every block once.
  std::span<const BlockRun> runs() const { return runs_; }

  uint32_t chunk_count() const { return (block_count_ + kChunkBlocksMax - 1) / kChunkBlocksMax; }
  // index < chunk_count().
  ChunkRange chunk(uint32_t index) const;

 private:
  std::vector<TensorSpec> tensors_;
  std::vector<BlockRun> runs_;
  uint32_t block_count_ = 0;
  uint64_t parameter_count_ = 0;
};

}  // namespace paceline
