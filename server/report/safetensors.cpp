#include "server/report/safetensors.h"

#include <nlohmann/json.hpp>

#include "runtime/base/check.h"
#include "runtime/base/files.h"
#include "runtime/base/utf8.h"

namespace paceline {

namespace {

constexpr size_t kAlignmentBytes = 64;

Result<std::string> header_text(const ParameterLayout& layout,
                                const std::map<std::string, std::string>& metadata) {
  // Ordered: readers get the tensors in the order of the file.
  nlohmann::ordered_json header;
  for (const auto& [key, value] : metadata)
    if (!is_utf8(key) || !is_utf8(value))
      return fail(Code::kInvalidArgument, "model metadata '%s' is not UTF-8", key.c_str());
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t offset = 0;
  for (const TensorSpec& tensor : layout.tensors()) {
    if (!is_utf8(tensor.name) || tensor.name == "__metadata__")
      return fail(Code::kInvalidArgument, "a tensor can't be named '%s' in safetensors",
                  tensor.name.c_str());
    const uint64_t end = offset + tensor.count * sizeof(float);
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  // Blanks behind the JSON are part of the format.
  while ((sizeof(uint64_t) + text.size()) % kAlignmentBytes != 0) text += ' ';
  return text;
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

}  // namespace paceline
