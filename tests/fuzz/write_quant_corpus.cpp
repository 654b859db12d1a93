// Inputs to start fuzz_payload and fuzz_kernels from: a payload of each codec; blocks of numbers at
// the limits of the rules.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <string>

#include "runtime/base/random.h"
#include "runtime/quant/codec.h"
#include "tests/fuzz/payload_layout.h"

namespace {

using namespace paceline;

bool write(const std::string& path, ByteSpan bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file) std::fprintf(stderr, "%s: cannot write\n", path.c_str());
  return static_cast<bool>(file);
}

bool write_payloads(const std::string& folder) {
  const ParameterLayout layout = payload_layout();
  Random random(1, 1);
  std::vector<float> update(layout.element_count());
  for (const BlockRun& run : layout.runs())
    for (size_t i = 0; i < run.element_count; ++i)
      if (random.below(8) == 0)
        update[size_t{run.first_block} * kBlockElements + i] = random.symmetric();
  for (const CodecInfo& info : codecs()) {
    std::vector<float> residual(layout.element_count());
    EncodedUpdate out;
    if (!encode_update(layout, info.id, {1, 2}, update, residual, &out).ok()) return false;
    if (!write(folder + "/" + info.name, out.chunks[0])) return false;
  }
  return true;
}

bool write_blocks(const std::string& folder) {
  const float infinity = std::numeric_limits<float>::infinity();
  const struct {
    const char* name;
    std::vector<float> values;
  } seeds[] = {
      {"ties", {127.0f, 0.5f, -1.5f, 2.5f, 63.5f, -3.5f, 7.0f}},
      {"flush", {0x1p-90f, 0x1.fffffep-91f, -0x1p-90f, -0.0f, 0x1p-149f, 0x1p-126f}},
      {"zero_block", {0x1p-80f, 0x1.fffffep-81f, -0x1p-82f, 0x1p-89f}},
      {"range", {0x1.fffffep118f, -0x1p118f, 0x1p100f, 1.0f}},
      {"refused", {1.0f, 2.0f, std::nanf(""), infinity, -infinity, 0x1p119f, -0x1p127f}},
      {"equal", {1.0f, -1.0f}},
  };
  for (const auto& seed : seeds)
    if (!write(folder + "/" + seed.name, std::as_bytes(std::span(seed.values)))) return false;
  Random random(1, 2);
  std::vector<float> several(3 * 2 * kBlockElements);
  for (float& value : several) value = random.symmetric();
  return write(folder + "/three_blocks", std::as_bytes(std::span(several)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: write_quant_corpus PAYLOAD_FOLDER KERNELS_FOLDER\n");
    return 2;
  }
  return write_payloads(argv[1]) && write_blocks(argv[2]) ? 0 : 1;
}
