#include "runtime/data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace paceline {

namespace {

constexpr size_t kScratchBytes = 64 * 1024;
// zlib counts in 32 bits.
constexpr size_t kPieceBytesMax = size_t{1} << 30;
constexpr int kGzipWindowBits = 15 + 16;

class Inflater {
 public:
  explicit Inflater(ByteSpan compressed) : rest_(compressed) {}
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() {
    if (started_) inflateEnd(&stream_);
  }

  // Fills the front of `out` and returns how much; 0 at the end of the last member.
  Result<size_t> read(std::span<std::byte> out) {
    size_t filled = 0;
    while (filled < out.size() && !(at_member_end_ && rest_.empty())) {
      if (at_member_end_) PACELINE_TRY(start_member());
      PACELINE_ASSIGN(const size_t count, inflate_some(out.subspan(filled)));
      filled += count;
    }
    return filled;
  }

 private:
  Status start_member() {
    if (started_ && !is_gzip(rest_))
      return fail(Code::kCorrupt, "%zu bytes that are not gzip follow the compressed data",
                  rest_.size());
    const int outcome = started_ ? inflateReset(&stream_) : inflateInit2(&stream_, kGzipWindowBits);
    if (outcome != Z_OK)
      return fail(Code::kResourceExhausted, "zlib can't start: %s", zError(outcome));
    started_ = true;
    at_member_end_ = false;
    return Status();
  }

  Result<size_t> inflate_some(std::span<std::byte> out) {
    const size_t input = std::min(rest_.size(), kPieceBytesMax);
    const size_t room = std::min(out.size(), kPieceBytesMax);
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
    stream_.avail_in = static_cast<uInt>(input);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(room);
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    rest_ = rest_.subspan(input - stream_.avail_in);
    const size_t produced = room - stream_.avail_out;
    if (outcome == Z_STREAM_END) {
      at_member_end_ = true;
      return produced;
    }
    // Without progress the input has ended inside a member.
    if (outcome == Z_BUF_ERROR || (outcome == Z_OK && rest_.empty() && produced < room))
      return fail(Code::kCorrupt, "the gzip data is cut off; copy the file again");
    if (outcome != Z_OK)
      return fail(Code::kCorrupt, "the gzip data is damaged (%s); copy the file again",
                  stream_.msg != nullptr ? stream_.msg : zError(outcome));
    return produced;
  }

  z_stream stream_{};
  ByteSpan rest_;
  bool started_ = false;
  bool at_member_end_ = true;
};

Result<uint64_t> content_bytes(ByteSpan compressed, uint64_t bytes_max) {
  std::vector<std::byte> scratch(kScratchBytes);
  Inflater inflater(compressed);
  uint64_t total = 0;
  for (;;) {
    PACELINE_ASSIGN(const size_t count, inflater.read(scratch));
    if (count == 0) return total;
    total += count;
    if (total > bytes_max)
      return fail(Code::kResourceExhausted,
                  "the gzip data unpacks to more than the limit of %llu bytes",
                  static_cast<unsigned long long>(bytes_max));
  }
}

}  // namespace

bool is_gzip(ByteSpan bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<Bytes> gunzip(ByteSpan compressed, uint64_t bytes_max) {
  const uint64_t addressable = SIZE_MAX / 4;
  PACELINE_ASSIGN(const uint64_t total,
                  content_bytes(compressed, std::min(bytes_max, addressable)));
  Bytes content(static_cast<size_t>(total));
  Inflater inflater(compressed);
  PACELINE_ASSIGN(const size_t count, inflater.read(content));
  if (count != content.size())
    return fail(Code::kCorrupt, "the gzip data changed while it was read");
  return content;
}

}  // namespace paceline
