#include "runtime/quant/codec.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/random.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/kernel_math.h"
#include "runtime/quant/payload.h"

namespace paceline {

namespace {

// Slices of a difference that is encoded: small enough for the stack and the first-level cache.
constexpr uint32_t kSliceBlocks = 16;
static_assert(kSliceBlocks % kSparseGroupBlocks == 0);
constexpr size_t kSliceElements = kSliceBlocks * kBlockElements;

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

// Encodes one chunk into `out`. encode_blocks(coder, blocks, output) fills the scales and codes.
template <class EncodeBlocks>
void encode_chunk(const ParameterLayout& layout, const PayloadHeader& header, uint64_t seed,
                  Bytes* out, EncodeBlocks encode_blocks) {
  const PayloadShape shape = payload_shape(layout, header.range, header.codec);
  out->resize(shape.bytes + shape.entry_bytes_max);
  auto* bytes = reinterpret_cast<unsigned char*>(out->data());
  if (shape.ranges_begin < shape.bytes) std::memset(bytes + shape.ranges_begin, 0, 2);
  PayloadOffsets at(shape, header.codec);
  for (ChunkParts part(layout, header.range); part.next(); at.pass(*part)) {
    const CodedBlocks blocks{
        part->first_block, part->block_count, part->element_count, {seed, header.round}};
    encode_blocks(at.coder(*part), blocks, at.coded<CodedOutput>(*part, bytes));
  }
  out->resize(payload_bytes(shape, *out));
  seal_payload(header, shape, *out);
}

// -subtrahend, so that an encoder that adds finds minuend - subtrahend; zeros if there is none.
void negate(const float* subtrahend, size_t count, float* negated) {
  if (subtrahend == nullptr)
    std::fill_n(negated, count, 0.0f);
  else
    for (size_t i = 0; i < count; ++i) negated[i] = -subtrahend[i];
}

// Encodes minuend - subtrahend of the blocks. What is lost needs no keeping: it is in the
// difference that is left once the decoded payload is added to the subtrahend.
void encode_difference(const BlockCoder& coder, const CodedBlocks& blocks, const float* minuend,
                       const float* subtrahend, const CodedOutput& out) {
  float negated[kSliceElements];
  for (uint32_t done = 0; done < blocks.block_count; done += kSliceBlocks) {
    CodedBlocks slice = blocks;
    slice.first_block += done;
    slice.block_count = std::min(kSliceBlocks, blocks.block_count - done);
    const size_t at = size_t{slice.first_block} * kBlockElements;
    negate(subtrahend == nullptr ? nullptr : subtrahend + at,
           size_t{slice.block_count} * kBlockElements, negated);
    CodedOutput to = out;
    to.scales += coder.scale_bytes_of(done);
    to.codes += size_t{done} * coder.code_bytes;
    if (coder.sparse()) to.ranges += BlockCoder::sparse_groups(done) * sizeof(uint16_t);
    coder.encode(slice, minuend + at, negated, to);
  }
}

bool differences_in_range(std::span<const float> minuend, const float* subtrahend) {
  float negated[kSliceElements];
  for (size_t at = 0; at < minuend.size(); at += kSliceElements) {
    const size_t count = std::min(kSliceElements, minuend.size() - at);
    negate(subtrahend == nullptr ? nullptr : subtrahend + at, count, negated);
    if (!kernels().sums_in_range(minuend.data() + at, negated, count / kBlockElements))
      return false;
  }
  return true;
}

}  // namespace

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

  out->codec = codec;
  out->chunks.resize(layout.chunk_count());
  out->checksum = 0;
  for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const PayloadHeader header{codec, true, layout.chunk(chunk), rotation.key};
    encode_chunk(layout, header, rotation.seed, &out->chunks[chunk],
                 [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedOutput& to) {
                   const size_t at = size_t{blocks.first_block} * kBlockElements;
                   coder.encode(blocks, update.data() + at, residual.data() + at, to);
                 });
    out->checksum = crc32c(out->chunks[chunk], out->checksum);
  }
  return {};
}

Status encode_delta(const ParameterLayout& layout, CodecId codec, RotationKey rotation,
                    std::span<const float> master, std::span<float> published, EncodedUpdate* out) {
  PACELINE_CHECK(master.size() == layout.element_count());
  PACELINE_CHECK(published.size() == layout.element_count());
  const bool absolute = codec == CodecId::kRaw32;
  const float* subtrahend = absolute ? nullptr : published.data();
  if (!differences_in_range(master, subtrahend))
    return out_of_range(absolute ? "the model" : "the model's change");
  PACELINE_CHECK(pads_are_zero(layout, master) && pads_are_zero(layout, published));

  out->codec = codec;
  out->chunks.resize(layout.chunk_count());
  out->checksum = 0;
  for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const PayloadHeader header{codec, !absolute, layout.chunk(chunk), rotation.key};
    encode_chunk(layout, header, rotation.seed, &out->chunks[chunk],
                 [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedOutput& to) {
                   encode_difference(coder, blocks, master.data(), subtrahend, to);
                 });
    out->checksum = crc32c(out->chunks[chunk], out->checksum);
    // The worker's own code, so that both ends hold the same bits by construction.
    apply_delta(layout, PayloadAccess::make(header, chunk, out->chunks[chunk]), rotation.seed,
                published);
  }
  return {};
}

void add_payload(const ParameterLayout& layout, const PayloadView& payload, uint64_t seed,
                 std::span<float> into) {
  PACELINE_CHECK(into.size() == layout.element_count());
  for_each_part(layout, payload, seed,
                [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedBytes& in,
                    size_t element) { coder.add(blocks, in, into.data() + element); });
}

void apply_delta(const ParameterLayout& layout, const PayloadView& delta, uint64_t seed,
                 std::span<float> published) {
  PACELINE_CHECK(published.size() == layout.element_count());
  if (PayloadAccess::absolute(delta)) {
    const ChunkRange range = layout.chunk(delta.chunk());
    const std::span<float> values = published.subspan(size_t{range.first_block} * kBlockElements,
                                                      size_t{range.block_count} * kBlockElements);
    std::fill(values.begin(), values.end(), 0.0f);
  }
  add_payload(layout, delta, seed, published);
}

void flush_small(std::span<float> values) {
  for (float& value : values) value = flushed(value);
}

}  // namespace paceline
