// IDX: two zero bytes, element type, dimension count, dimensions as big-endian u32, big-endian
// values. Source: Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits", file
// formats.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/data/formats.h"
#include "runtime/data/load.h"

namespace paceline {

namespace {

constexpr size_t kDimensionsMax = 4;
constexpr uint64_t kRowBytesMax = uint64_t{1} << 30;

struct IdxArray {
  ElementType type = ElementType::kUint8;
  std::vector<uint32_t> dimensions;  // 1 to kDimensionsMax; the first counts rows
  Bytes values;                      // host byte order

  size_t row_count() const { return dimensions[0]; }
  size_t elements_per_row() const { return values.size() / element_bytes(type) / row_count(); }
};

std::optional<ElementType> element_type(std::byte code) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return ElementType::kUint8;
    case 0x09:
      return ElementType::kInt8;
    case 0x0B:
      return ElementType::kInt16;
    case 0x0C:
      return ElementType::kInt32;
    case 0x0D:
      return ElementType::kFloat32;
    case 0x0E:
      return ElementType::kFloat64;
    default:
      return std::nullopt;
  }
}

uint32_t big_endian_u32(const std::byte* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof value);
  return __builtin_bswap32(value);
}

// Bytes of an array with these dimensions; nullopt beyond 64 bits.
std::optional<uint64_t> array_bytes(std::span<const uint32_t> dimensions, uint64_t bytes) {
  for (const uint32_t length : dimensions)
    if (__builtin_mul_overflow(bytes, uint64_t{length}, &bytes)) return std::nullopt;
  return bytes;
}

std::string dimensions_text(std::span<const uint32_t> dimensions) {
  std::string text;
  for (const uint32_t length : dimensions)
    text += (text.empty() ? "" : " x ") + std::to_string(length);
  return text;
}

template <size_t width>
void reverse_elements(Bytes& values) {
  for (size_t i = 0; i + width <= values.size(); i += width)
    std::reverse(values.data() + i, values.data() + i + width);
}

void to_host_order(size_t width, Bytes& values) {
  if (width == 2) reverse_elements<2>(values);
  if (width == 4) reverse_elements<4>(values);
  if (width == 8) reverse_elements<8>(values);
}

bool fits(std::span<const uint32_t> dimensions, ElementType type, size_t payload) {
  return array_bytes(dimensions, element_bytes(type)) == payload;
}

Status check_dimensions(std::span<const uint32_t> dimensions, ElementType type, size_t payload) {
  std::vector<uint32_t> swapped(dimensions.begin(), dimensions.end());
  for (uint32_t& length : swapped) length = __builtin_bswap32(length);
  if (!fits(dimensions, type, payload) && fits(swapped, type, payload))
    return fail(Code::kCorrupt, "the dimensions are little-endian; IDX has big-endian ones");

  const std::string text = dimensions_text(dimensions);
  // Without rows the product is 0 whatever a row's dimensions say, so a row is bounded by itself.
  const auto row_bytes = array_bytes(dimensions.subspan(1), element_bytes(type));
  if (!row_bytes || *row_bytes == 0 || *row_bytes > kRowBytesMax)
    return fail(Code::kCorrupt, "dimensions %s: a row must have 1 to %llu bytes", text.c_str(),
                static_cast<unsigned long long>(kRowBytesMax));
  if (fits(dimensions, type, payload)) return Status();
  const uint64_t expected = *row_bytes * dimensions[0];  // at most 2^30 x 2^32
  return fail(Code::kCorrupt,
              "%zu bytes of values, dimensions %s x %zu bytes need %llu: the file %s", payload,
              text.c_str(), element_bytes(type), static_cast<unsigned long long>(expected),
              payload < expected ? "is cut off" : "has bytes after its end");
}

Result<IdxArray> parse_idx(Bytes content) {
  constexpr size_t kMagicBytes = 4;
  if (content.size() < kMagicBytes)
    return fail(Code::kCorrupt, "%zu bytes are too short for an IDX header", content.size());
  if (content[0] != std::byte{0} || content[1] != std::byte{0})
    return fail(Code::kCorrupt, "starts with bytes %02x %02x; an IDX file starts with 00 00",
                std::to_integer<unsigned>(content[0]), std::to_integer<unsigned>(content[1]));
  const std::optional<ElementType> type = element_type(content[2]);
  if (!type)
    return fail(Code::kCorrupt, "element type 0x%02x is none of IDX's 08 09 0B 0C 0D 0E",
                std::to_integer<unsigned>(content[2]));
  const auto dimension_count = std::to_integer<size_t>(content[3]);
  if (dimension_count < 1 || dimension_count > kDimensionsMax)
    return fail(Code::kUnsupported, "%zu dimensions; 1 to %zu are supported", dimension_count,
                kDimensionsMax);
  const size_t header_bytes = kMagicBytes + dimension_count * sizeof(uint32_t);
  if (content.size() < header_bytes)
    return fail(Code::kCorrupt, "the header is cut off: %zu bytes, %zu dimensions need %zu",
                content.size(), dimension_count, header_bytes);

  IdxArray array;
  array.type = *type;
  for (size_t i = 0; i < dimension_count; ++i)
    array.dimensions.push_back(big_endian_u32(content.data() + kMagicBytes + i * sizeof(uint32_t)));
  PACELINE_TRY(check_dimensions(array.dimensions, array.type, content.size() - header_bytes));
  // In place: a second copy of the images would not fit beside the first on a small board.
  content.erase(content.begin(), content.begin() + static_cast<ptrdiff_t>(header_bytes));
  to_host_order(element_bytes(array.type), content);
  array.values = std::move(content);
  return array;
}

template <class T>
Status check_finite(const IdxArray& array) {
  for (size_t i = 0; i < array.values.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, array.values.data() + i * sizeof(T), sizeof(T));
    if (std::isfinite(value)) continue;
    return fail(Code::kCorrupt, "row %zu (from 0), value %zu is %s; every value must be finite",
                i / array.elements_per_row(), i % array.elements_per_row(),
                std::isnan(value) ? "NaN" : "infinite");
  }
  return Status();
}

int32_t integer_at(const IdxArray& array, size_t index) {
  const std::byte* at = array.values.data() + index * element_bytes(array.type);
  const auto load = [at](auto value) {
    std::memcpy(&value, at, sizeof value);
    return static_cast<int32_t>(value);
  };
  switch (array.type) {
    case ElementType::kUint8:
      return load(uint8_t{});
    case ElementType::kInt8:
      return load(int8_t{});
    case ElementType::kInt16:
      return load(int16_t{});
    default:
      return load(int32_t{});
  }
}

Result<std::vector<int32_t>> labels_of(Bytes content, size_t row_count, uint32_t class_count) {
  PACELINE_ASSIGN(const IdxArray array, parse_idx(std::move(content)));
  if (array.type == ElementType::kFloat32 || array.type == ElementType::kFloat64)
    return fail(Code::kCorrupt, "labels must be whole numbers, the file holds %s",
                element_name(array.type));
  if (array.dimensions.size() != 1)
    return fail(Code::kCorrupt, "labels have one dimension, the file has %s",
                dimensions_text(array.dimensions).c_str());
  if (array.row_count() != row_count)
    return fail(Code::kCorrupt, "%zu labels for %zu rows; are these two files a pair?",
                array.row_count(), row_count);
  std::vector<int32_t> labels(row_count);
  for (size_t i = 0; i < row_count; ++i) {
    const int32_t label = integer_at(array, i);
    if (label < 0 || static_cast<uint32_t>(label) >= class_count)
      return fail(Code::kCorrupt, "label %d at index %zu; classes are numbered 0 to %u", label, i,
                  class_count - 1);
    labels[i] = label;
  }
  return labels;
}

}  // namespace

bool matches_idx(std::string_view file_name, ByteSpan content) {
  if (content.size() >= 2 && content[0] == std::byte{0} && content[1] == std::byte{0}) return true;
  return file_name.find(".idx") != std::string_view::npos ||
         file_name.find("-idx") != std::string_view::npos;
}

Result<Dataset> read_idx(Bytes content, const ReadOptions& options) {
  if (options.schema != nullptr && options.schema->sparse.used())
    return fail(Code::kInvalidArgument, "the run takes sparse rows (LibSVM), this is IDX");
  PACELINE_ASSIGN(IdxArray array, parse_idx(std::move(content)));
  if (!options.allow_non_finite) {
    if (array.type == ElementType::kFloat32) PACELINE_TRY(check_finite<float>(array));
    if (array.type == ElementType::kFloat64) PACELINE_TRY(check_finite<double>(array));
  }
  std::vector<int32_t> labels;
  uint32_t class_count = options.class_count;
  if (!options.label_file.empty()) {
    PACELINE_ASSIGN(Bytes label_content, load_file(options.label_file, options.bytes_max));
    const uint32_t limit = class_count != 0 ? class_count : kClassesMax;
    auto read = labels_of(std::move(label_content), array.row_count(), limit);
    if (!read) return fail_in_file(options.label_file, read.error());
    labels = std::move(*read);
    if (class_count == 0 && !labels.empty())
      class_count = static_cast<uint32_t>(*std::max_element(labels.begin(), labels.end())) + 1;
  }
  // A file of one dimension holds one value a row.
  std::vector<uint32_t> shape(array.dimensions.begin() + 1, array.dimensions.end());
  if (shape.empty()) shape.push_back(1);
  return Dataset(array.type, std::move(array.values), std::move(shape), std::move(labels),
                 class_count);
}

}  // namespace paceline
