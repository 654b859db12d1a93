// The wire format of Protocol Buffers, as far as ONNX goes: fields by number, nothing generated.
//
// What is read is of unknown origin: lengths are held against what is there, and a view lives as
// long as the bytes it was given. Source: protobuf.dev, "Encoding".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/status.h"

namespace paceline {

struct ProtoField {
  uint32_t number = 0;
  bool is_bytes = false;  // else a number: `value` holds its bits
  bool is_fixed = false;  // of four or eight bytes, not a varint
  uint64_t value = 0;
  ByteSpan bytes;

  std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  int64_t whole() const { return static_cast<int64_t>(value); }
  float real() const;
};

class ProtoReader {
 public:
  explicit ProtoReader(ByteSpan bytes) : rest_(bytes) {}

  // The next field; false at the end. Errors: kCorrupt.
  Result<bool> next(ProtoField* field);
  Result<uint64_t> varint();
  bool at_end() const { return rest_.empty(); }

 private:
  Result<ByteSpan> take(uint64_t count);

  ByteSpan rest_;
};

// Appends a repeated field's values, one or a packed list. Errors: kCorrupt.
Status read_repeated(const ProtoField& field, std::vector<int64_t>* values);
Status read_repeated(const ProtoField& field, std::vector<float>* values);
Status read_repeated(const ProtoField& field, std::vector<double>* values);

class ProtoWriter {
 public:
  void put(uint32_t number, int64_t value);
  void put(uint32_t number, float value);
  void put(uint32_t number, std::string_view text);
  void put(uint32_t number, ByteSpan bytes);
  void put(uint32_t number, std::span<const int64_t> values);  // packed
  // A message in the message.
  void put(uint32_t number, const ProtoWriter& inner) { put(number, ByteSpan(inner.bytes_)); }
  Bytes take() { return std::move(bytes_); }

 private:
  void varint(uint64_t value);

  Bytes bytes_;
};

}  // namespace paceline
