#include "runtime/quant/payload.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"

namespace paceline {

namespace {

constexpr uint16_t kMagic = 0x5150;  // "PQ"
constexpr uint8_t kVersion = 1;
constexpr uint8_t kBlockLog2 = 8;
static_assert(1u << kBlockLog2 == kBlockElements);

constexpr uint16_t kFlagErrorFeedback = 1u << 0;
constexpr uint16_t kFlagDelta = 1u << 2;
constexpr size_t kCodesAlignment = 64;
constexpr size_t kChecksumAt = 24;
constexpr size_t kBehindChecksum = kChecksumAt + sizeof(uint32_t);

template <class T>
T read_at(ByteSpan bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void write_at(std::span<std::byte> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// The checksum of a payload whose checksum field holds `field`; `rest` is the checksum of what
// stands behind that field.
uint32_t checksum_with(ByteSpan payload, uint32_t field, uint32_t rest) {
  const uint32_t front =
      crc32c(std::as_bytes(std::span(&field, 1)), crc32c(payload.first(kChecksumAt)));
  return crc32c_join(front, rest, payload.size() - kBehindChecksum);
}

// As the field must have it.
uint32_t checksum(ByteSpan payload) {
  return checksum_with(payload, 0, crc32c(payload.subspan(kBehindChecksum)));
}

uint16_t flags_of(const PayloadHeader& header) {
  const unsigned feedback = codec_info(header.codec).lossy ? kFlagErrorFeedback : 0u;
  return static_cast<uint16_t>(feedback | (header.delta ? kFlagDelta : 0u));
}

// The header's fields, each with one legal value or a small set. Errors: kCorrupt.
Result<PayloadHeader> read_header(ChunkRange range, ByteSpan bytes) {
  if (bytes.size() < kPayloadHeaderBytes)
    return fail(Code::kCorrupt, "%zu bytes, a header has %zu", bytes.size(), kPayloadHeaderBytes);
  if (read_at<uint16_t>(bytes, 0) != kMagic)
    return fail(Code::kCorrupt, "magic is 0x%04x, not 0x%04x", read_at<uint16_t>(bytes, 0), kMagic);
  if (read_at<uint8_t>(bytes, 2) != kVersion)
    return fail(Code::kCorrupt, "version %u, this end reads %u", read_at<uint8_t>(bytes, 2),
                kVersion);
  PayloadHeader header;
  PACELINE_ASSIGN(header.codec, codec_by_wire_id(read_at<uint8_t>(bytes, 3)));
  const uint16_t flags = read_at<uint16_t>(bytes, 4);
  header.delta = (flags & kFlagDelta) != 0;
  if (flags != flags_of(header) || (!header.delta && header.codec != CodecId::kRaw32))
    return fail(Code::kCorrupt, "flags 0x%04x are not legal for %s", flags,
                codec_info(header.codec).name);
  if (read_at<uint8_t>(bytes, 6) != kBlockLog2)
    return fail(Code::kCorrupt, "block_log2 %u, this end reads %u", read_at<uint8_t>(bytes, 6),
                kBlockLog2);
  header.range = {read_at<uint32_t>(bytes, 8), read_at<uint32_t>(bytes, 12)};
  if (header.range.first_block != range.first_block ||
      header.range.block_count != range.block_count)
    return fail(Code::kCorrupt, "blocks %u + %u, the chunk is %u + %u", header.range.first_block,
                header.range.block_count, range.first_block, range.block_count);
  header.round = read_at<uint64_t>(bytes, 16);
  if (read_at<uint8_t>(bytes, 7) != 0 || read_at<uint32_t>(bytes, 28) != 0)
    return fail(Code::kCorrupt, "a reserved byte of the header is not 0");
  return header;
}

// Ranges begin at 0 and do not fall; the last one made the payload's length.
Status verify_ranges(const PayloadShape& shape, ByteSpan bytes) {
  uint16_t last = 0;
  for (size_t at = shape.ranges_begin; at < shape.bytes; at += sizeof last) {
    const uint16_t next = read_at<uint16_t>(bytes, at);
    if (next < last || (at == shape.ranges_begin && next != 0))
      return fail(Code::kCorrupt, "range %zu is %u, after %u",
                  (at - shape.ranges_begin) / sizeof last, next, last);
    last = next;
  }
  return {};
}

Result<PayloadView> verify(const ParameterLayout& layout, uint32_t chunk, ByteSpan bytes) {
  const ChunkRange range = layout.chunk(chunk);
  PACELINE_ASSIGN(const PayloadHeader header, read_header(range, bytes));
  const PayloadShape shape = payload_shape(layout, range, header.codec);
  const size_t needed = bytes.size() < shape.bytes ? shape.bytes : payload_bytes(shape, bytes);
  if (bytes.size() != needed)
    return fail(Code::kCorrupt, "%zu bytes, %s needs %zu", bytes.size(),
                codec_info(header.codec).name, needed);
  if (checksum(bytes) != read_at<uint32_t>(bytes, kChecksumAt))
    return fail(Code::kCorrupt, "checksum 0x%08x, the bytes have 0x%08x",
                read_at<uint32_t>(bytes, kChecksumAt), checksum(bytes));
  const ByteSpan padding = bytes.subspan(shape.scales_end, shape.codes_begin - shape.scales_end);
  if (std::any_of(padding.begin(), padding.end(), [](std::byte b) { return b != std::byte{0}; }))
    return fail(Code::kCorrupt, "the padding after the scales is not 0");
  PACELINE_TRY(verify_ranges(shape, bytes));

  const PayloadView view = PayloadAccess::make(header, chunk, bytes);
  Status status;
  for_each_part(
      layout, view, 0,
      [&](const BlockCoder& coder, const CodedBlocks& blocks, const CodedBytes& in, size_t) {
        if (status.ok()) status = coder.verify(blocks, in);
      });
  if (!status.ok()) return fail(std::move(status));
  return view;
}

}  // namespace

PayloadShape payload_shape(const ParameterLayout& layout, ChunkRange range, CodecId codec) {
  PayloadShape shape;
  shape.scales_end = kPayloadHeaderBytes;
  size_t code_bytes = 0;
  size_t groups = 0;
  for (ChunkParts part(layout, range); part.next();) {
    const BlockCoder& coder = block_coder(codec, part->wide);
    shape.scales_end += coder.scale_bytes_of(part->block_count);
    code_bytes += size_t{part->block_count} * coder.code_bytes;
    if (coder.sparse()) groups += BlockCoder::sparse_groups(part->block_count);
  }
  shape.codes_begin = (shape.scales_end + kCodesAlignment - 1) / kCodesAlignment * kCodesAlignment;
  shape.ranges_begin = shape.codes_begin + code_bytes;
  shape.bytes = shape.ranges_begin;
  if (const BlockCoder& coder = block_coder(codec); coder.sparse()) {
    shape.bytes += (groups + 1) * sizeof(uint16_t);
    shape.entry_bytes_max = groups * coder.entry_bytes_max;
    PACELINE_CHECK(shape.entry_bytes_max <= UINT16_MAX);
  }
  PACELINE_CHECK(shape.bytes + shape.entry_bytes_max <= kChunkBytesMax);
  return shape;
}

size_t payload_bytes(const PayloadShape& shape, ByteSpan payload) {
  if (shape.ranges_begin == shape.bytes) return shape.bytes;
  return shape.bytes + read_at<uint16_t>(payload, shape.bytes - sizeof(uint16_t));
}

uint32_t seal_payload(const PayloadHeader& header, const PayloadShape& shape,
                      std::span<std::byte> payload) {
  PACELINE_CHECK(payload.size() >= shape.bytes && payload.size() == payload_bytes(shape, payload));
  write_at(payload, 0, kMagic);
  write_at(payload, 2, kVersion);
  write_at(payload, 3, static_cast<uint8_t>(header.codec));
  write_at(payload, 4, flags_of(header));
  write_at(payload, 6, kBlockLog2);
  write_at(payload, 7, uint8_t{0});
  write_at(payload, 8, header.range.first_block);
  write_at(payload, 12, header.range.block_count);
  write_at(payload, 16, header.round);
  write_at(payload, 28, uint32_t{0});
  std::fill(payload.begin() + static_cast<ptrdiff_t>(shape.scales_end),
            payload.begin() + static_cast<ptrdiff_t>(shape.codes_begin), std::byte{0});
  const uint32_t rest = crc32c(payload.subspan(kBehindChecksum));
  const uint32_t field = checksum_with(payload, 0, rest);
  write_at(payload, kChecksumAt, field);
  return checksum_with(payload, field, rest);
}

ChunkParts::ChunkParts(const ParameterLayout& layout, ChunkRange range) : range_(range) {
  const std::span<const BlockRun> runs = layout.runs();
  const auto first = std::partition_point(runs.begin(), runs.end(), [&](const BlockRun& run) {
    return run.first_block + run.block_count <= range.first_block;
  });
  rest_ = runs.subspan(static_cast<size_t>(first - runs.begin()));
}

bool ChunkParts::next() {
  const uint32_t range_end = range_.first_block + range_.block_count;
  if (rest_.empty() || rest_.front().first_block >= range_end) return false;
  const BlockRun& run = rest_.front();
  rest_ = rest_.subspan(1);
  const uint32_t begin = std::max(run.first_block, range_.first_block);
  const uint32_t end = std::min(run.first_block + run.block_count, range_end);
  const uint32_t skipped = (begin - run.first_block) * kBlockElements;
  part_ = {begin, end - begin,
           std::min((end - begin) * kBlockElements, run.element_count - skipped), run.wide};
  return true;
}

PayloadView PayloadAccess::make(const PayloadHeader& header, uint32_t chunk, ByteSpan bytes) {
  PayloadView view;
  view.codec_ = header.codec;
  view.chunk_ = chunk;
  view.key_ = header.round;
  view.absolute_ = !header.delta;
  view.bytes_ = bytes;
  return view;
}

Result<PayloadView> verify_payload(const ParameterLayout& layout, uint32_t chunk, ByteSpan bytes) {
  if (chunk >= layout.chunk_count())
    return fail(Code::kCorrupt, "chunk %u, the model has %u", chunk, layout.chunk_count());
  Result<PayloadView> view = verify(layout, chunk, bytes);
  if (!view)
    return fail(view.error().code(), "payload of chunk %u: %s", chunk,
                view.error().message().c_str());
  return view;
}

}  // namespace paceline
