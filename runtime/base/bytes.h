// Little-endian numbers in byte strings. Nothing read here is trusted: a reader past the end fails.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "runtime/base/status.h"

namespace paceline {

static_assert(std::endian::native == std::endian::little, "formats are little-endian");

using ByteSpan = std::span<const std::byte>;
using Bytes = std::vector<std::byte>;

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof(T));
  }
  void put_bytes(ByteSpan bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // Length as u32, then the characters.
  void put_text(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    put_bytes(std::as_bytes(std::span(text)));
  }
  size_t size() const { return bytes_.size(); }
  Bytes take() { return std::move(bytes_); }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : rest_(bytes) {}

  template <class T>
  Result<T> get() {
    static_assert(std::is_arithmetic_v<T>);
    if (rest_.size() < sizeof(T))
      return fail(Code::kCorrupt, "%zu bytes left, need %zu", rest_.size(), sizeof(T));
    T value;
    std::memcpy(&value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }
  // A view into the bytes that were given; valid as long as they are.
  Result<ByteSpan> get_bytes(size_t count) {
    if (rest_.size() < count)
      return fail(Code::kCorrupt, "%zu bytes left, need %zu", rest_.size(), count);
    ByteSpan taken = rest_.first(count);
    rest_ = rest_.subspan(count);
    return taken;
  }
  Result<std::string> get_text(size_t bytes_max) {
    PACELINE_ASSIGN(const uint32_t length, get<uint32_t>());
    if (length > bytes_max)
      return fail(Code::kCorrupt, "text of %u bytes, at most %zu", length, bytes_max);
    PACELINE_ASSIGN(ByteSpan raw, get_bytes(length));
    return std::string(reinterpret_cast<const char*>(raw.data()), raw.size());
  }
  size_t left() const { return rest_.size(); }

 private:
  ByteSpan rest_;
};

}  // namespace paceline
