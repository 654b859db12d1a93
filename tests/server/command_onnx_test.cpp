#include "server/command_onnx.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "runtime/base/checksum.h"
#include "runtime/base/files.h"
#include "runtime/base/safetensors.h"
#include "server/run_config.h"
#include "tests/support/temp_folder.h"

namespace paceline {
namespace {

constexpr uint64_t kFileBytesMax = 1 << 20;

const std::string kRun = R"(
[model]
input = [3]
classes = 2
[[layer]]
type = "dense"
units = 4
[[layer]]
type = "tanh"
[[layer]]
type = "dense"
units = 2
[data]
columns = ["a", "b", "c"]
label = "state"
classes = ["off", "on"]
scale = [0.5, 2, 1]
offset = [0, 0, -1]
)";

// What a run leaves behind.
std::vector<float> leave_model(const std::string& folder) {
  const RunSpec run = parse_run(kRun).value();
  std::vector<float> parameters(run.model.layout.element_count());
  init_parameters(run.model, 5, parameters);
  REQUIRE(write_safetensors(folder + "/model.safetensors", run.model.layout, parameters,
                            model_metadata(kRun, model_checksum(parameters)))
              .ok());
  return parameters;
}

std::string text_of(const std::string& path) {
  const Bytes bytes = read_file(path, kFileBytesMax).value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_SUITE("server/command_onnx") {
  TEST_CASE("a run that is exported and imported can be served: the same weights, the same table") {
    const test::TempFolder temp;
    const std::string state = temp.file("state"), folder = temp.file("again");
    std::filesystem::create_directory(state);
    const std::vector<float> parameters = leave_model(state);
    const std::string onnx = temp.file("model.onnx");
    REQUIRE(export_model({state, onnx}).has_value());

    ImportOptions options;
    options.model_file = onnx;
    options.folder = folder;
    options.check = true;
    const Result<std::string> checked = import_model(options);
    REQUIRE(checked.has_value());
    CHECK(checked->find("26 trainable parameters") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder));

    options.check = false;
    REQUIRE(import_model(options).has_value());
    const Result<ServeConfig> config =
        parse_serve_config(text_of(folder + "/run.toml"), "run.toml");
    REQUIRE(config.has_value());
    CHECK(config->start_file == folder + "/model.safetensors");
    CHECK(config->schema.columns == std::vector<std::string>{"a", "b", "c"});
    CHECK(config->schema.scale == std::vector<float>{0.5f, 2.0f, 1.0f});
    const auto file = Safetensors::parse(read_file(config->start_file, kFileBytesMax).value());
    REQUIRE(file.has_value());
    CHECK(file->parameters(config->core.run.model.layout).value() == parameters);

    CHECK(import_model(options).error().code() == Code::kInvalidArgument);
    options.force = true;
    CHECK(import_model(options).has_value());
  }

  TEST_CASE("what is no model is an error that names the file") {
    const test::TempFolder temp;
    const std::string path = temp.write("broken.onnx", std::string_view("broken"));
    ImportOptions options;
    options.model_file = path;
    CHECK(import_model(options).error().message().find("broken.onnx") != std::string::npos);
    CHECK(export_model({temp.file("none"), path}).error().code() == Code::kNotFound);
  }
}

}  // namespace paceline
