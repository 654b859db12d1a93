// Writes models of every layer as ONNX, with rows and what the reference backend makes of them:
// write_samples FOLDER. check_samples.py holds them against the onnx package and NumPy.
#include <cstdio>
#include <fstream>
#include <string>

#include "server/onnx/export.h"
#include "tests/runtime/train/nets.h"
#include "tests/server/onnx/sample_nets.h"

namespace paceline {
namespace {

bool write(const std::string& path, ByteSpan bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return file.good();
}

bool write_sample(const std::string& path, const test::SampleNet& net) {
  const ModelSpec model = test::model_of(net.toml);
  Random random(7, 43);
  const std::vector<float> parameters = test::random_parameters(model, random);
  test::Batch batch = test::random_batch(model, 5, random);
  for (float& feature : batch.features) feature *= net.reach;
  const std::vector<float> answers = test::answers_of(model, parameters, batch.features);
  return write(path + ".onnx", write_onnx(export_onnx(model, {}, parameters))) &&
         write(path + ".rows", std::as_bytes(std::span(batch.features))) &&
         write(path + ".answers", std::as_bytes(std::span(answers)));
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_samples FOLDER\n");
    return 2;
  }
  int number = 0;
  for (const paceline::test::SampleNet& net : paceline::test::sample_nets())
    if (!paceline::write_sample(std::string(argv[1]) + "/" + std::to_string(number++), net)) {
      std::fprintf(stderr, "%s: cannot write\n", argv[1]);
      return 1;
    }
  return 0;
}
