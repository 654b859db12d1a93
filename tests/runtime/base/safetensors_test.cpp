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

  TEST_CASE("read: what was written comes back, whatever else the JSON holds") {
    const TempFolder folder;
    const ParameterLayout layout = layout_of({{"dense1.weight", {130, 3}}, {"dense1.bias", {130}}});
    std::vector<float> parameters(layout.element_count());
    Random random(test::seed(), 2);
    for (const TensorSpec& tensor : layout.tensors())
      for (float& value :
           std::span(parameters)
               .subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.count)))
        value = random.symmetric();
    const std::string run = "[model]\n# \"\\ \t\x01 \xC3\xA9\n";
    REQUIRE(write_safetensors(folder.file("m"), layout, parameters, model_metadata(run, 7)).ok());
    const Safetensors model =
        Safetensors::parse(read_file(folder.file("m"), 1 << 20).value()).value();
    CHECK(model.metadata().at("run") == run);
    CHECK(model.metadata().at("checksum") == "00000007");
    CHECK(model.parameters(layout).value() == parameters);
    const auto refused = [&](const ParameterLayout& other) {
      return model.parameters(other).error().message();
    };
    CHECK(refused(layout_of({{"dense1.weight", {3, 130}}, {"dense1.bias", {130}}}))
              .starts_with("the model's tensor 'dense1.weight' has another type or shape"));
    CHECK(refused(layout_of({{"dense2.weight", {2}}})).starts_with("the model has no tensor"));
    CHECK(refused(layout_of({{"dense1.bias", {130}}})).starts_with("the model has 2 tensors"));
  }

  TEST_CASE("read: another program's order, spelling and extra keys are taken") {
    const std::string header =
        R"( { "b" : { "data_offsets" : [ 4 , 12 ] , "shape" : [2], "x": [{"y": null}, -1.5e3, "z"], )"
        R"("dtype":"F32"},"__metadata__":{"run":"\u00e9\ud83d\ude00"},)"
        R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )";
    ByteWriter file;
    file.put(uint64_t{header.size()});
    file.put_bytes(std::as_bytes(std::span(header)));
    for (const float value : {1.0f, 2.0f, 3.0f}) file.put(value);
    const Safetensors model = Safetensors::parse(file.take()).value();
    CHECK(model.metadata().at("run") == "\xC3\xA9\xF0\x9F\x98\x80");
    const ParameterLayout layout = layout_of({{"a", {1}}, {"b", {2}}});
    const std::vector<float> flat = model.parameters(layout).value();
    CHECK(flat[0] == 1);
    CHECK(flat[kBlockElements + 1] == 3);
  }

  TEST_CASE("read: every truncation and random damage is an error or a model, never a crash") {
    const TempFolder folder;
    const ParameterLayout layout = layout_of({{"w", {3, 2}}, {"b", {3}}});
    const std::vector<float> parameters(layout.element_count(), 0.0f);
    REQUIRE(write_safetensors(folder.file("m"), layout, parameters, {{"run", "x"}}).ok());
    const Bytes whole = read_file(folder.file("m"), 1 << 20).value();
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto model = Safetensors::parse(
          Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
      CHECK((!model || !model->parameters(layout)));
    }
    Random random(test::seed(), 3);
    for (int i = 0; i < 20'000; ++i) {
      Bytes damaged = whole;
      for (uint64_t k = 1 + random.below(4); k > 0; --k) {
        const size_t at = static_cast<size_t>(random.below(damaged.size()));
        static constexpr std::string_view kHostile = "{}[]\",:\\u0-9e\x00\xFF";
        damaged[at] =
            static_cast<std::byte>(kHostile[static_cast<size_t>(random.below(kHostile.size()))]);
      }
      const auto model = Safetensors::parse(std::move(damaged));
      if (model)
        if (const auto flat = model->parameters(layout)) CHECK(flat->size() == parameters.size());
    }
    const std::string deep(10'000, '[');
    ByteWriter file;
    const std::string header = "{\"a\":{\"x\":" + deep;
    file.put(uint64_t{header.size()});
    file.put_bytes(std::as_bytes(std::span(header)));
    CHECK_FALSE(Safetensors::parse(file.take()).has_value());
  }
}

}  // namespace paceline
