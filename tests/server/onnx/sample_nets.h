// Nets that hold every layer, in the shapes that an exporter has to tell apart.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/train/trainer.h"
#include "tests/runtime/train/nets.h"

namespace paceline::test {

struct SampleNet {
  std::string toml;
  float reach = 1;  // how far from 0 its rows' values lie
};

inline std::string layer(const std::string& type, const std::string& keys = "") {
  return "[[layer]]\ntype = '" + type + "'\n" + keys;
}

inline std::string net(const std::string& input, const std::string& layers) {
  return "[model]\ninput = " + input + "\nclasses = 3\n" + layers + layer("flatten") +
         layer("dense", "units = 3\n");
}

inline std::vector<SampleNet> sample_nets() {
  std::vector<SampleNet> nets = {
      {std::string(kSmallMlp)}, {std::string(kSmallCnn)}, {std::string(kSmallCells), 12}};
  const auto add = [&](const std::string& input, const std::string& layers) {
    nets.push_back({net(input, layers)});
  };
  const std::string conv1d = layer("conv1d", "filters = 6\nkernel = 3\n");
  const std::string conv2d = layer("conv2d", "filters = 6\nkernel = 3\npadding = 1\n");
  for (const char* type :
       {"relu", "leaky_relu", "tanh", "sigmoid", "gelu", "dropout", "layer_norm", "flatten"}) {
    add("[7]", layer(type));
    add("[2, 9]", conv1d + layer(type));
    add("[2, 9, 8]", conv2d + layer(type) + layer(type));
  }
  for (const std::string type : {"maxpool", "avgpool"}) {
    add("[2, 9]", conv1d + layer(type + "1d", "kernel = 3\nstride = 2\n"));
    add("[9, 8]", conv2d + layer(type + "2d", "kernel = 2\n"));
  }
  for (const std::string& norm :
       {layer("group_norm", "groups = 1\n"), layer("group_norm", "groups = 3\n"),
        layer("group_norm", "groups = 6\n"), layer("globalavgpool")}) {
    add("[2, 9]", conv1d + norm);
    add("[2, 9, 8]", conv2d + norm);
  }
  add("[7]", layer("dense", "units = 12\n") + layer("group_norm", "groups = 4\n"));
  add("[2, 9, 8]",
      layer("conv2d", "filters = 4\nkernel = 2\nstride = 2\ndilation = 2\ngroups = 2\n"));
  add("[24]", layer("reshape", "channels = 2\nheight = 4\n") + conv2d);
  add("[4, 5]", layer("transpose") + conv1d);
  nets.push_back({std::string(kSmallGraph)});
  add("[7]", layer("batch_norm") + layer("dense", "units = 6\n") + layer("batch_norm"));
  add("[2, 9]", conv1d + layer("batch_norm") + layer("relu") + layer("batch_norm"));
  add("[2, 9, 8]", conv2d + layer("batch_norm") +
                       layer("add", "inputs = ['batch_norm1', 'conv2d1']\n") +
                       layer("concat", "inputs = ['add1', 'conv2d1', 'input']\n") + layer("relu"));
  add("[2, 9, 8]",
      layer("flatten") + layer("relu") + layer("add", "inputs = ['flatten1', 'relu1']\n"));
  add("[2, 9, 8]", layer("globalavgpool") + layer("globalavgpool", "input = 'input'\n") +
                       layer("concat", "inputs = ['globalavgpool1', 'globalavgpool2']\n"));
  for (const char* cell : {"lstm", "gru"}) {
    add("[4, 5]", layer(cell, "units = 3\n"));
    add("[5, 4]", layer("transpose") + layer(cell, "units = 3\nsequence = true\n") +
                      layer(cell, "units = 4\n"));
    add("[2, 9]", conv1d + layer(cell, "units = 5\nsequence = true\n") + layer("tanh"));
  }
  return nets;
}

// What a net gives on the reference backend: probabilities or numbers.
inline std::vector<float> answers_of(const ModelSpec& model, std::span<const float> parameters,
                                     std::span<const float> rows) {
  LossOptions loss;
  if (model.class_count == 0) loss.kind = LossKind::kMse;
  const size_t count = rows.size() / static_cast<size_t>(model.input_features());
  auto trainer = make_trainer(model, count, "reference", loss);
  PACELINE_CHECK(trainer.has_value());
  std::vector<float> answers(count * model.output_count);
  PACELINE_CHECK((*trainer)->predict(parameters, rows, answers).ok());
  return answers;
}

}  // namespace paceline::test
