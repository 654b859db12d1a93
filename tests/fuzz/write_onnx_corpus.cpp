// Inputs to start fuzzing read_onnx() from: a small net of each kind of layer.
#include <cstdio>
#include <fstream>
#include <string>

#include "server/onnx/export.h"
#include "tests/runtime/train/nets.h"

namespace {

constexpr const char* kNets[] = {
    "input = [3]\noutputs = 1\n[[layer]]\ntype = 'dense'\nunits = 1\n",
    "input = [2, 4, 3]\nclasses = 2\n[[layer]]\ntype = 'conv2d'\nfilters = 2\nkernel = "
    "2\n[[layer]]\n"
    "type = 'group_norm'\ngroups = 2\n[[layer]]\ntype = 'gelu'\n[[layer]]\ntype = "
    "'globalavgpool'\n",
    "input = [2, 6]\nclasses = 2\n[[layer]]\ntype = 'conv1d'\nfilters = 2\nkernel = 3\n[[layer]]\n"
    "type = 'maxpool1d'\nkernel = 2\n[[layer]]\ntype = 'layer_norm'\n[[layer]]\ntype = 'gru'\n"
    "units = 2\n",
    "input = [4]\nclasses = 2\n[[layer]]\ntype = 'embedding'\nentries = 3\nunits = 2\n[[layer]]\n"
    "type = 'transpose'\n[[layer]]\ntype = 'lstm'\nunits = 2\nsequence = true\n[[layer]]\ntype = "
    "'dropout'\n[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 2\n",
    "input = [2, 6]\nclasses = 2\n[[layer]]\ntype = 'conv1d'\nfilters = 2\nkernel = 1\n[[layer]]\n"
    "type = 'batch_norm'\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'add'\ninputs = "
    "['conv1d1', 'relu1']\n[[layer]]\ntype = 'concat'\ninputs = ['add1', 'batch_norm1']\n"
    "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 2\n"};

}  // namespace

int main(int argc, char** argv) {
  using namespace paceline;
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_onnx_corpus FOLDER\n");
    return 2;
  }
  Random random(1, 70);
  int number = 0;
  for (const char* net : kNets) {
    const ModelSpec model = test::model_of("[model]\n" + std::string(net));
    const Bytes bytes = write_onnx(export_onnx(model, {}, test::random_parameters(model, random)));
    std::ofstream file(std::string(argv[1]) + "/net" + std::to_string(++number), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (!file) {
      std::fprintf(stderr, "%s: cannot write\n", argv[1]);
      return 1;
    }
  }
  return 0;
}
