#include "tests/server/onnx/onnx_cases.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/files.h"

namespace paceline::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileBytesMax = 1 << 22;

// input_0.pb, input_1.pb, ... as far as they can be read.
std::vector<OnnxTensor> tensors(const fs::path& folder, const std::string& kind) {
  std::vector<OnnxTensor> all;
  for (int i = 0;; ++i) {
    const fs::path path = folder / (kind + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(path)) return all;
    const auto bytes = read_file(path.string(), kFileBytesMax);
    auto tensor = bytes ? read_onnx_tensor(*bytes) : Result<OnnxTensor>(OnnxTensor());
    all.push_back(tensor ? std::move(*tensor) : OnnxTensor());
  }
}

}  // namespace

std::string onnx_case_folder() {
  const char* named = std::getenv("PACELINE_ONNX_TESTDATA");
  const fs::path folder = named ? named : "/usr/share/libonnx-testdata/data";
  return fs::is_directory(folder / "node") ? folder.string() : std::string();
}

std::vector<OnnxCase> onnx_cases() {
  std::vector<OnnxCase> cases;
  const fs::path root = onnx_case_folder();
  for (const char* kind : {"node", "pytorch-converted", "pytorch-operator"})
    for (const fs::directory_entry& entry : fs::directory_iterator(root / kind)) {
      const auto bytes = read_file((entry.path() / "model.onnx").string(), kFileBytesMax);
      auto model = bytes ? read_onnx(*bytes) : Result<OnnxModel>(fail(Code::kNotFound, "none"));
      if (!model) continue;
      const fs::path data = entry.path() / "test_data_set_0";
      cases.push_back({std::string(kind) + "/" + entry.path().filename().string(),
                       std::move(*model), tensors(data, "input"), tensors(data, "output")});
    }
  std::ranges::sort(cases, {}, &OnnxCase::name);
  return cases;
}

}  // namespace paceline::test
