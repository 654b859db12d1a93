#include "runtime/quant/codec.h"

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/encode_chunks.h"
#include "runtime/quant/kernel_math.h"

namespace paceline {

Status out_of_range(const char* what) {
  return fail(Code::kInvalidArgument,
              "%s holds a value that is not finite or not below 2^119; lower the learning rate",
              what);
}

bool pads_are_zero(const ParameterLayout& layout, std::span<const float> values) {
  for (const BlockRun& run : layout.runs()) {
    const size_t begin = size_t{run.first_block} * kBlockElements;
    const size_t end = begin + size_t{run.block_count} * kBlockElements;
    for (size_t i = begin + run.element_count; i < end; ++i)
      if (bits_of(values[i]) != 0) return false;
  }
  return true;
}

uint64_t downlink_seed(uint64_t run_seed) { return hash64(run_seed ^ 0x646F776E6C696E6Bull); }

size_t EncodedUpdate::bytes() const {
  size_t total = 0;
  for (const Bytes& chunk : chunks) total += chunk.size();
  return total;
}

Status encode_update(const ParameterLayout& layout, CodecId codec, RotationKey rotation,
                     std::span<const float> update, std::span<float> residual, EncodedUpdate* out) {
  PACELINE_CHECK(update.size() == layout.element_count());
  PACELINE_CHECK(residual.size() == layout.element_count());
  if (!kernels().sums_in_range(update.data(), residual.data(), layout.block_count()))
    return out_of_range("update + residual");
  PACELINE_CHECK(pads_are_zero(layout, update) && pads_are_zero(layout, residual));
  encode_chunks(layout, codec, true, rotation, out,
                [&](uint32_t, const ChunkPart&, const BlockCoder& coder, const CodedBlocks& blocks,
                    const CodedOutput& to) {
                  const size_t at = size_t{blocks.first_block} * kBlockElements;
                  coder.encode(blocks, update.data() + at, residual.data() + at, to);
                });
  return {};
}

void add_payload(const ParameterLayout& layout, const PayloadView& payload, uint64_t seed,
                 std::span<float> into) {
  PACELINE_CHECK(into.size() == layout.element_count());
  for_each_part(layout, payload, seed,
                [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedBytes& in,
                    size_t element) { coder.add(blocks, in, into.data() + element); });
}

void flush_small(std::span<float> values) {
  for (float& value : values) value = flushed(value);
}

}  // namespace paceline
