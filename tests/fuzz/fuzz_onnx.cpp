// Any bytes: read_onnx() gives an error, or a model that import_onnx() refuses or turns into a run
// that holds together, and that is read again as it was written.
#include <cstddef>
#include <cstdint>

#include "runtime/base/check.h"
#include "server/onnx/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace paceline;
  const Result<OnnxModel> model =
      read_onnx(ByteSpan(reinterpret_cast<const std::byte*>(data), size));
  if (!model) return 0;
  const Bytes bytes = write_onnx(*model);
  const Result<OnnxModel> again = read_onnx(bytes);
  PACELINE_CHECK(again);
  PACELINE_CHECK(write_onnx(*again) == bytes);
  for (const bool numbers : {false, true}) {
    const Result<OnnxImport> import = import_onnx(*model, numbers);
    if (import && import->refused.empty())
      PACELINE_CHECK(import->parameters.size() == import->model.layout.element_count());
  }
  return 0;
}
