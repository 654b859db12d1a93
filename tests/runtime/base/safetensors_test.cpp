#include "runtime/base/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "runtime/base/files.h"
#include "runtime/base/random.h"
#include "tests/support/seed.h"
#include "tests/support/temp_folder.h"

namespace paceline {

namespace {

using test::TempFolder;

ParameterLayout layout_of(std::vector<std::pair<std::string, std::vector<uint32_t>>> tensors) {
  std::vector<TensorSpec> specs;
  for (auto& [name, shape] : tensors) {
    specs.emplace_back();
    specs.back().name = name;
    specs.back().shape = shape;
  }
  return ParameterLayout::make(std::move(specs)).value();
}

// Reads the format as its page tells it, and refuses what the reference reader refuses: tensors
// that overlap, leave gaps or do not fill the file.
std::map<std::string, std::vector<float>> read_back(const std::string& path,
                                                    nlohmann::ordered_json* header) {
  const Bytes file = read_file(path, 1 << 24).value();
  ByteReader reader(file);
  const uint64_t header_bytes = reader.get<uint64_t>().value();
  REQUIRE(header_bytes <= reader.left());
  const ByteSpan text = reader.get_bytes(static_cast<size_t>(header_bytes)).value();
  *header = nlohmann::ordered_json::parse(
      std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  CHECK((sizeof(uint64_t) + header_bytes) % 64 == 0);
  const ByteSpan data = reader.get_bytes(reader.left()).value();
  std::map<std::string, std::vector<float>> tensors;
  uint64_t expected_begin = 0;
  for (const auto& [name, tensor] : header->items()) {
    if (name == "__metadata__") continue;
    CHECK(tensor["dtype"] == "F32");
    const uint64_t begin = tensor["data_offsets"][0], end = tensor["data_offsets"][1];
    REQUIRE(begin == expected_begin);
    REQUIRE(end <= data.size());
    uint64_t count = 1;
    for (const uint64_t length : tensor["shape"]) count *= length;
    REQUIRE(end - begin == count * sizeof(float));
    std::vector<float> values(static_cast<size_t>(count));
    std::memcpy(values.data(), data.data() + begin, static_cast<size_t>(end - begin));
    tensors[name] = values;
    expected_begin = end;
  }
  CHECK(expected_begin == data.size());
  return tensors;
}

}  // namespace

TEST_SUITE("base/safetensors") {
  TEST_CASE("write: an independent reader finds every tensor bit for bit, without pads") {
    const TempFolder folder;
    const ParameterLayout layout =
        layout_of({{"dense1.weight", {130, 3}}, {"dense1.bias", {130}}, {"scalar", {1}}});
    std::vector<float> parameters(static_cast<size_t>(layout.element_count()), -7.0f);
    Random random(test::seed(), 1);
    for (float& value : parameters) value = random.symmetric();
    const std::string path = folder.file("model.safetensors");
    for (const size_t length : {size_t{0}, size_t{1}, size_t{40}}) {
      const std::string text(length, 'v');
      REQUIRE(write_safetensors(path, layout, parameters, {{"checksum", text}, {"k\"", "\xC3\xA9"}})
                  .ok());
      nlohmann::ordered_json header;
      const auto tensors = read_back(path, &header);
      CHECK(header["__metadata__"]["checksum"] == text);
      CHECK(header["__metadata__"]["k\""] == "\xC3\xA9");
      REQUIRE(tensors.size() == 3);
      for (const TensorSpec& tensor : layout.tensors()) {
        const auto wanted =
            std::span(parameters)
                .subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count));
        CHECK(tensors.at(tensor.name) == std::vector<float>(wanted.begin(), wanted.end()));
        CHECK(header[tensor.name]["shape"] == tensor.shape);
      }
    }
  }

  TEST_CASE("write: without metadata there is no such entry") {
    const TempFolder folder;
    const ParameterLayout layout = layout_of({{"w", {2}}});
    const std::vector<float> parameters(static_cast<size_t>(layout.element_count()));
    REQUIRE(write_safetensors(folder.file("m"), layout, parameters, {}).ok());
    nlohmann::ordered_json header;
    CHECK(read_back(folder.file("m"), &header).at("w") == std::vector<float>{0, 0});
    CHECK_FALSE(header.contains("__metadata__"));
  }

  TEST_CASE("write: names and metadata that JSON can't hold are refused and leave the old file") {
    const TempFolder folder;
    const std::string path = folder.write("m", "old");
    const auto code_of = [&](const char* name, const char* value) {
      const ParameterLayout layout = layout_of({{name, {2}}});
      const std::vector<float> parameters(static_cast<size_t>(layout.element_count()));
      return write_safetensors(path, layout, parameters, {{"key", value}}).code();
    };
    CHECK(code_of("w", "\xFF") == Code::kInvalidArgument);
    CHECK(code_of("\xFF", "v") == Code::kInvalidArgument);
    CHECK(code_of("__metadata__", "v") == Code::kInvalidArgument);
    CHECK(read_file(path, 10)->size() == 3);
    CHECK(code_of("w", "v") == Code::kOk);
  }
}

}  // namespace paceline
