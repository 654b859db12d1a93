// What goes down: the difference between the master and what the workers hold.
//
// Everything is done slice by slice, so that what one loop leaves in the first-level cache is what
// the next one reads: from a round's payloads to the next publication the model passes through the
// memory once.
#include <algorithm>
#include <optional>

#include "runtime/base/check.h"
#include "runtime/quant/chunk_sum.h"
#include "runtime/quant/dispatch.h"
#include "runtime/quant/encode_chunks.h"

namespace paceline {

namespace {

constexpr uint32_t kSliceBlocks = kTileBlocks;
static_assert(kSliceBlocks == kAheadBlocks);
constexpr size_t kSliceElements = kSliceBlocks * kBlockElements;

// RAW32 carries the values themselves.
bool is_absolute(CodecId codec) { return codec == CodecId::kRaw32; }

Status publication_out_of_range(CodecId codec) {
  return out_of_range(is_absolute(codec) ? "the model" : "the model's change");
}

// What a publication reads and writes. `published` is null if it is absolute; `next` may be the
// same vector.
struct Publication {
  const float* master = nullptr;
  const float* published = nullptr;
  float* next = nullptr;
};

// The values to encode, in `scratch` if they are a difference; null if one is out of range.
const float* values_of(const Publication& publication, size_t at, size_t blocks, float* scratch) {
  const float* master = publication.master + at;
  const bool in_range =
      publication.published == nullptr
          ? kernels().sums_in_range(master, nullptr, blocks)
          : kernels().subtract(master, publication.published + at, blocks, scratch);
  if (!in_range) return nullptr;
  return publication.published == nullptr ? master : scratch;
}

// Calls visit(first, slice, output) for slices of a part; `first` counts from the part's begin.
template <class Visit>
void for_slices(const BlockCoder& coder, const CodedBlocks& blocks, const CodedOutput& out,
                Visit visit) {
  for (uint32_t first = 0; first < blocks.block_count; first += kSliceBlocks) {
    CodedBlocks slice = blocks;
    slice.first_block += first;
    slice.block_count = std::min(kSliceBlocks, blocks.block_count - first);
    CodedOutput to = out;
    to.scales += coder.scale_bytes_of(first);
    to.codes += size_t{first} * coder.code_bytes;
    if (coder.sparse()) to.ranges += BlockCoder::sparse_groups(first) * sizeof(uint16_t);
    visit(first, slice, to);
  }
}

// Encodes a slice and takes the step that it makes every worker take, with the worker's own code.
// What is lost needs no keeping: it is in the difference that is left. False, and `next` as it was,
// if a value is out of range.
bool publish_slice(const BlockCoder& coder, const CodedBlocks& slice,
                   const Publication& publication, const CodedOutput& to) {
  const size_t at = size_t{slice.first_block} * kBlockElements;
  const size_t count = size_t{slice.block_count} * kBlockElements;
  alignas(kLineBytes) float scratch[kSliceElements];
  const float* values = values_of(publication, at, slice.block_count, scratch);
  if (values == nullptr) return false;
  coder.encode(slice, values, nullptr, to);
  float* next = publication.next + at;
  if (publication.published == nullptr) std::fill_n(next, count, 0.0f);
  coder.add(slice, {to.scales, to.codes, to.ranges}, next);
  return true;
}

// apply_mean() and publish_slice() of a delta, with their bytes.
bool close_slice(const BlockCoder& coder, const CodedBlocks& slice, const ClosingBlocks& closing,
                 const CodedOutput& to) {
  if (coder.close != nullptr && kernels().*coder.close != nullptr)
    return (kernels().*coder.close)(closing, to.scales, to.codes);
  alignas(kLineBytes) float difference[kSliceElements];
  if (!kernels().close(closing, difference)) return false;
  coder.encode(slice, difference, nullptr, to);
  coder.add(slice, {to.scales, to.codes, to.ranges}, closing.next);
  return true;
}

}  // namespace

Status encode_delta(const ParameterLayout& layout, CodecId codec, RotationKey rotation,
                    std::span<const float> master, std::span<float> published, EncodedUpdate* out) {
  PACELINE_CHECK(master.size() == layout.element_count());
  PACELINE_CHECK(published.size() == layout.element_count());
  const Publication publication{master.data(), is_absolute(codec) ? nullptr : published.data(),
                                published.data()};
  for (size_t at = 0; at < master.size(); at += kSliceElements) {
    const size_t blocks = std::min(kSliceElements, master.size() - at) / kBlockElements;
    alignas(kLineBytes) float scratch[kSliceElements];
    if (values_of(publication, at, blocks, scratch) == nullptr)
      return publication_out_of_range(codec);
  }
  PACELINE_CHECK(pads_are_zero(layout, master) && pads_are_zero(layout, published));
  encode_chunks(layout, codec, !is_absolute(codec), rotation, out,
                [&](uint32_t, const ChunkPart&, const BlockCoder& coder, const CodedBlocks& blocks,
                    const CodedOutput& to) {
                  for_slices(coder, blocks, to,
                             [&](size_t, const CodedBlocks& slice, const CodedOutput& slice_to) {
                               publish_slice(coder, slice, publication, slice_to);
                             });
                });
  return {};
}

Status close_and_publish(const ParameterLayout& layout, const RoundClose& close, CodecId codec,
                         RotationKey rotation, std::span<float> master,
                         std::span<const float> published, std::span<float> next,
                         EncodedUpdate* out) {
  PACELINE_CHECK(master.size() == layout.element_count());
  PACELINE_CHECK(published.size() == layout.element_count());
  PACELINE_CHECK(next.size() == layout.element_count() && next.data() != published.data());
  PACELINE_CHECK(close.payloads.size() % layout.chunk_count() == 0 && close.divisor > 0);
  PACELINE_CHECK(pads_are_zero(layout, master) && pads_are_zero(layout, published));
  const size_t workers = close.payloads.size() / layout.chunk_count();
  for (size_t i = 0; i < close.payloads.size(); ++i)
    PACELINE_CHECK(close.payloads[i].payload.chunk() == i / workers);
  const Publication publication{master.data(), is_absolute(codec) ? nullptr : published.data(),
                                next.data()};
  std::optional<ChunkSum> sum;
  uint32_t summed_chunk = 0;
  bool in_range = true;
  encode_chunks(
      layout, codec, !is_absolute(codec), rotation, out,
      [&](uint32_t chunk, const ChunkPart& part, const BlockCoder& coder, const CodedBlocks& blocks,
          const CodedOutput& to) {
        if (!sum || summed_chunk != chunk) {
          sum.emplace(layout, layout.chunk(chunk), close.payloads.subspan(chunk * workers, workers),
                      close.seed);
          summed_chunk = chunk;
        }
        sum->enter(part);
        for_slices(coder, blocks, to,
                   [&](size_t first, const CodedBlocks& slice, const CodedOutput& slice_to) {
                     if (!in_range) return;
                     alignas(kLineBytes) float acc[kSliceElements];
                     sum->sum_tile(first, slice.block_count, acc);
                     const size_t at = size_t{slice.first_block} * kBlockElements;
                     if (publication.published == nullptr) {
                       kernels().apply_mean(acc, close.divisor, close.keep, slice.block_count,
                                            master.data() + at);
                       in_range = publish_slice(coder, slice, publication, slice_to);
                     } else {
                       in_range =
                           close_slice(coder, slice,
                                       {acc, close.divisor, close.keep, master.data() + at,
                                        published.data() + at, next.data() + at, slice.block_count},
                                       slice_to);
                     }
                   });
      });
  return in_range ? Status() : publication_out_of_range(codec);
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

}  // namespace paceline
