#include "runtime/base/safetensors.h"

#include <cmath>
#include <cstring>

#include "runtime/base/check.h"
#include "runtime/base/files.h"
#include "runtime/base/json_text.h"
#include "runtime/base/utf8.h"
#include "runtime/base/version.h"

namespace paceline {

namespace {

constexpr size_t kAlignmentBytes = 64;
constexpr size_t kDimensionsMax = 8;
constexpr const char* kMetadata = "__metadata__";

std::string number_list(std::span<const uint32_t> numbers) {
  std::string text = "[";
  for (const uint32_t number : numbers)
    text += (text.size() == 1 ? "" : ",") + std::to_string(number);
  return text + "]";
}

Result<std::string> header_text(const ParameterLayout& layout,
                                const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto add_key = [&](const std::string& key) {
    text += (text.size() == 1 ? "" : ",") + json_quoted(key) + ":";
  };
  if (!metadata.empty()) {
    add_key(kMetadata);
    char before = '{';
    for (const auto& [key, value] : metadata) {
      if (!is_utf8(key) || !is_utf8(value))
        return fail(Code::kInvalidArgument, "model metadata '%s' is not UTF-8", key.c_str());
      text += before + json_quoted(key) + ":" + json_quoted(value);
      before = ',';
    }
    text += '}';
  }
  // In the file's order: readers get the tensors as they lie.
  uint64_t offset = 0;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (!is_utf8(tensor.name) || tensor.name == kMetadata)
      return fail(Code::kInvalidArgument, "a tensor can't be named '%s' in safetensors",
                  tensor.name.c_str());
    const uint64_t end = offset + tensor.count * sizeof(float);
    add_key(tensor.name);
    text += format_text(R"({"dtype":"F32","shape":%s,"data_offsets":[%llu,%llu]})",
                        number_list(tensor.shape).c_str(), static_cast<unsigned long long>(offset),
                        static_cast<unsigned long long>(end));
    offset = end;
  }
  text += '}';
  // Blanks behind the JSON are part of the format.
  while ((sizeof(uint64_t) + text.size()) % kAlignmentBytes != 0) text += ' ';
  return text;
}

Result<std::vector<uint64_t>> read_numbers(JsonReader* json, size_t count_max) {
  std::vector<uint64_t> numbers;
  PACELINE_TRY(json->expect('['));
  if (json->take(']')) return numbers;
  do {
    if (numbers.size() == count_max)
      return fail(Code::kCorrupt, "more than %zu numbers in a list", count_max);
    PACELINE_ASSIGN(const uint64_t number, json->whole());
    numbers.push_back(number);
  } while (json->take(','));
  PACELINE_TRY(json->expect(']'));
  return numbers;
}

}  // namespace

Status write_safetensors(const std::string& path, const ParameterLayout& layout,
                         std::span<const float> parameters,
                         const std::map<std::string, std::string>& metadata) {
  PACELINE_CHECK(parameters.size() == layout.element_count());
  PACELINE_ASSIGN(const std::string header, header_text(layout, metadata));
  ByteWriter writer;
  writer.put(static_cast<uint64_t>(header.size()));
  writer.put_bytes(std::as_bytes(std::span(header)));
  for (const TensorSpec& tensor : layout.tensors())
    writer.put_bytes(std::as_bytes(
        parameters.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count))));
  return write_file_atomically(path, writer.bytes());
}

std::map<std::string, std::string> model_metadata(const std::string& run_text, uint32_t checksum) {
  return {{"format", "paceline"},
          {"version", kVersionText},
          {"checksum", format_text("%08x", checksum)},
          {"run", run_text}};
}

Result<Safetensors> Safetensors::parse(Bytes file) {
  Safetensors model;
  model.file_ = std::move(file);
  ByteReader reader(model.file_);
  const Result<uint64_t> header_bytes = reader.get<uint64_t>();
  if (!header_bytes || *header_bytes > reader.left())
    return fail(Code::kCorrupt, "this is no safetensors file, or it is cut off");
  PACELINE_ASSIGN(const ByteSpan header, reader.get_bytes(static_cast<size_t>(*header_bytes)));
  model.data_begin_ = model.file_.size() - reader.left();
  PACELINE_TRY(model.read_header({reinterpret_cast<const char*>(header.data()), header.size()}));
  return model;
}

Status Safetensors::read_header(std::string_view text) {
  JsonReader json(text);
  PACELINE_TRY(json.expect('{'));
  if (json.take('}')) return json.expect_end();
  do {
    PACELINE_ASSIGN(std::string name, json.string());
    PACELINE_TRY(json.expect(':'));
    if (name == kMetadata) {
      PACELINE_TRY(json.expect('{'));
      if (json.take('}')) continue;
      do {
        PACELINE_ASSIGN(std::string key, json.string());
        PACELINE_TRY(json.expect(':'));
        PACELINE_ASSIGN(metadata_[std::move(key)], json.string());
      } while (json.take(','));
      PACELINE_TRY(json.expect('}'));
      continue;
    }
    Result<Tensor> tensor = read_tensor(&json);
    if (!tensor)
      return fail(Code::kCorrupt, "tensor %s: %s", json_quoted(name).c_str(),
                  tensor.error().message().c_str());
    if (!tensors_.emplace(name, std::move(*tensor)).second)
      return fail(Code::kCorrupt, "tensor %s occurs twice", json_quoted(name).c_str());
  } while (json.take(','));
  PACELINE_TRY(json.expect('}'));
  return json.expect_end();
}

Result<Safetensors::Tensor> Safetensors::read_tensor(JsonReader* json) {
  Tensor tensor;
  std::vector<uint64_t> offsets;
  PACELINE_TRY(json->expect('{'));
  do {
    PACELINE_ASSIGN(const std::string key, json->string());
    PACELINE_TRY(json->expect(':'));
    if (key == "dtype") {
      PACELINE_ASSIGN(tensor.type, json->string());
    } else if (key == "shape") {
      PACELINE_ASSIGN(tensor.shape, read_numbers(json, kDimensionsMax));
    } else if (key == "data_offsets") {
      PACELINE_ASSIGN(offsets, read_numbers(json, 2));
    } else {
      PACELINE_TRY(json->skip_value());
    }
  } while (json->take(','));
  PACELINE_TRY(json->expect('}'));
  if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data().size())
    return fail(Code::kCorrupt, "its place is not in the file, which may be cut off");
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  return tensor;
}

Result<std::vector<float>> Safetensors::parameters(const ParameterLayout& layout) const {
  std::vector<float> flat(layout.element_count());
  for (const TensorSpec& wanted : layout.tensors()) {
    const auto found = tensors_.find(wanted.name);
    if (found == tensors_.end())
      return fail(Code::kCorrupt, "the model has no tensor '%s'; it belongs to another run",
                  wanted.name.c_str());
    const Tensor& tensor = found->second;
    const std::vector<uint64_t> shape(wanted.shape.begin(), wanted.shape.end());
    if (tensor.type != "F32" || tensor.shape != shape ||
        tensor.end - tensor.begin != wanted.count * sizeof(float))
      return fail(Code::kCorrupt,
                  "the model's tensor '%s' has another type or shape than the run wants",
                  wanted.name.c_str());
    const std::span<float> values = std::span(flat).subspan(static_cast<size_t>(wanted.offset),
                                                            static_cast<size_t>(wanted.count));
    std::memcpy(values.data(), data().data() + tensor.begin, values.size_bytes());
    for (const float value : values)
      if (!std::isfinite(value))
        return fail(Code::kCorrupt, "the model's tensor '%s' holds a value that is not finite",
                    wanted.name.c_str());
  }
  if (tensors_.size() != layout.tensors().size())
    return fail(Code::kCorrupt, "the model has %zu tensors, the run %zu; it belongs to another run",
                tensors_.size(), layout.tensors().size());
  return flat;
}

}  // namespace paceline
