// The sum of many workers' payloads of one chunk, tile by tile.
//
// Loop order: tile outside, then block, worker inside. It reads each payload once, keeps one tile
// of accumulators hot, whatever the number of workers, and fixes the order of every addition.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/quant/payload.h"

namespace paceline {

// A sparse codec's group covers several blocks, so the workers before it have to be through with
// all of them: a tile is as long.
inline constexpr uint32_t kTileBlocks = kSparseGroupBlocks;

// A load or store of a whole register that lies across two cache lines takes twice as long.
inline constexpr size_t kLineBytes = 64;

class ChunkSum {
 public:
  // `payloads` is all of the chunk with this range, in worker-id order, and outlives this.
  ChunkSum(const ParameterLayout& layout, ChunkRange range,
           std::span<const WeightedPayload> payloads, uint64_t seed);

  // Before the first tile of each part, in order.
  void enter(const ChunkPart& part);
  // acc = the sums of `blocks` blocks of the part, from its block `first` on, a multiple of
  // kTileBlocks.
  void sum_tile(size_t first, size_t blocks, float* acc) const;

 private:
  // Of the present part, for each codec; so no worker needs a cursor of its own.
  struct Cursor {
    const BlockCoder* coder = nullptr;
    PayloadOffsets at;
  };
  const Cursor& cursor_of(const WeightedPayload& worker) const {
    return cursors_[codec_position(worker.payload.codec())];
  }
  void add_rotated(RotationKey rotation, size_t first, size_t blocks, float* acc) const;

  std::span<const WeightedPayload> payloads_;
  uint64_t seed_;
  ChunkPart part_;
  std::array<Cursor, kCodecCount> cursors_;
};

}  // namespace paceline
