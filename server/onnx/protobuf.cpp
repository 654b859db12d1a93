#include "server/onnx/protobuf.h"

#include <bit>

namespace paceline {
namespace {

enum WireType : uint64_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// The bytes of a packed list as numbers of one size.
template <class Number>
Status read_fixed(const ProtoField& field, std::vector<Number>* values) {
  if (!field.is_bytes || field.bytes.size() % sizeof(Number) != 0)
    return fail(Code::kCorrupt, "field %u holds no list of %zu-byte numbers", field.number,
                sizeof(Number));
  const size_t before = values->size();
  values->resize(before + field.bytes.size() / sizeof(Number));
  if (!field.bytes.empty())
    std::memcpy(values->data() + before, field.bytes.data(), field.bytes.size());
  return {};
}

}  // namespace

float ProtoField::real() const { return std::bit_cast<float>(static_cast<uint32_t>(value)); }

Result<uint64_t> ProtoReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) break;
    const auto byte = static_cast<uint64_t>(rest_.front());
    rest_ = rest_.subspan(1);
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return fail(Code::kCorrupt, "a number is cut off or has more than 64 bits");
}

Result<ByteSpan> ProtoReader::take(uint64_t count) {
  if (count > rest_.size())
    return fail(Code::kCorrupt, "%zu bytes left, a field says %llu", rest_.size(),
                static_cast<unsigned long long>(count));
  const ByteSpan taken = rest_.first(static_cast<size_t>(count));
  rest_ = rest_.subspan(static_cast<size_t>(count));
  return taken;
}

Result<bool> ProtoReader::next(ProtoField* field) {
  if (rest_.empty()) return false;
  PACELINE_ASSIGN(const uint64_t key, varint());
  *field = {};
  field->number = static_cast<uint32_t>(key >> 3);
  if (key >> 32 != 0 || field->number == 0)
    return fail(Code::kCorrupt, "field number %llu is out of range",
                static_cast<unsigned long long>(key >> 3));
  switch (key & 7) {
    case kVarint: {
      PACELINE_ASSIGN(field->value, varint());
      return true;
    }
    case kLength: {
      PACELINE_ASSIGN(const uint64_t length, varint());
      PACELINE_ASSIGN(field->bytes, take(length));
      field->is_bytes = true;
      return true;
    }
    case kFixed32:
    case kFixed64: {
      PACELINE_ASSIGN(const ByteSpan raw, take((key & 7) == kFixed32 ? 4 : 8));
      std::memcpy(&field->value, raw.data(), raw.size());
      field->is_fixed = true;
      return true;
    }
    default:
      return fail(Code::kCorrupt, "field %u has no known kind", field->number);
  }
}

Status read_repeated(const ProtoField& field, std::vector<int64_t>* values) {
  if (!field.is_bytes) {
    values->push_back(field.whole());
    return {};
  }
  ProtoReader list(field.bytes);
  while (!list.at_end()) {
    PACELINE_ASSIGN(const uint64_t value, list.varint());
    values->push_back(static_cast<int64_t>(value));
  }
  return {};
}

Status read_repeated(const ProtoField& field, std::vector<float>* values) {
  if (field.is_bytes) return read_fixed(field, values);
  values->push_back(field.real());
  return {};
}

Status read_repeated(const ProtoField& field, std::vector<double>* values) {
  if (field.is_bytes) return read_fixed(field, values);
  values->push_back(std::bit_cast<double>(field.value));
  return {};
}

void ProtoWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
  bytes_.push_back(static_cast<std::byte>(value));
}

void ProtoWriter::put(uint32_t number, int64_t value) {
  varint(uint64_t{number} << 3 | kVarint);
  varint(static_cast<uint64_t>(value));
}

void ProtoWriter::put(uint32_t number, float value) {
  varint(uint64_t{number} << 3 | kFixed32);
  const auto raw = std::as_bytes(std::span(&value, 1));
  bytes_.insert(bytes_.end(), raw.begin(), raw.end());
}

void ProtoWriter::put(uint32_t number, ByteSpan bytes) {
  varint(uint64_t{number} << 3 | kLength);
  varint(bytes.size());
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ProtoWriter::put(uint32_t number, std::string_view text) {
  put(number, std::as_bytes(std::span(text)));
}

void ProtoWriter::put(uint32_t number, std::span<const int64_t> values) {
  ProtoWriter list;
  for (const int64_t value : values) list.varint(static_cast<uint64_t>(value));
  put(number, list);
}

}  // namespace paceline
