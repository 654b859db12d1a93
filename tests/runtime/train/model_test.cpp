#include "runtime/train/model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/base/checksum.h"
#include "runtime/train/training.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

// The message of a description that must be refused.
std::string refusal(const std::string& text) {
  const auto spec = parse_model(text);
  REQUIRE(!spec.has_value());
  CHECK(spec.error().code() == Code::kInvalidArgument);
  return spec.error().message();
}

std::string mlp_with(const std::string& layer) {
  return "[model]\ninput = [4]\nclasses = 2\n[[layer]]\n" + layer;
}

std::string cnn_with(const std::string& layer) {
  return "[model]\ninput = [8, 6]\nclasses = 2\n[[layer]]\n" + layer;
}

}  // namespace

TEST_SUITE_BEGIN("train/model");

TEST_CASE("parse_model: shapes, names, defaults and the layout follow from the description") {
  const ModelSpec spec = test::model_of(test::kSmallCnn);
  CHECK(spec.input_shape == std::vector<uint32_t>{2, 11, 9});
  CHECK(spec.input_features() == 198);
  CHECK(spec.class_count == 4);
  REQUIRE(spec.layers.size() == 7);
  CHECK(spec.layers[0].name == "conv2d1");
  CHECK(spec.layers[0].stride == 1);
  CHECK(spec.layers[0].output_shape == std::vector<uint32_t>{3, 11, 9});
  CHECK(spec.layers[2].stride == 2);
  CHECK(spec.layers[2].output_shape == std::vector<uint32_t>{3, 5, 4});
  CHECK(spec.layers[3].name == "conv2d2");
  CHECK(spec.layers[3].output_shape == std::vector<uint32_t>{5, 2, 2});
  CHECK(spec.layers[5].output_shape == std::vector<uint32_t>{20});
  const auto tensors = spec.layout.tensors();
  REQUIRE(tensors.size() == 6);
  CHECK(tensors[0].name == "conv2d1.weight");
  CHECK(tensors[0].shape == std::vector<uint32_t>{3, 2, 3, 3});
  CHECK(tensors[1].tensor_class == TensorClass::kBias);
  CHECK(tensors[4].name == "dense1.weight");
  CHECK(tensors[4].shape == std::vector<uint32_t>{4, 20});
}

TEST_CASE("parse_model: [height, width] is one channel, and other tables are left alone") {
  const ModelSpec spec = test::model_of(
      "[run]\nname = 'x'\n[model]\ninput = [28, 28]\nclasses = 10\n[[layer]]\ntype = 'flatten'\n"
      "[[layer]]\ntype = 'dense'\nname = 'head'\nunits = 10\n");
  CHECK(spec.input_shape == std::vector<uint32_t>{1, 28, 28});
  CHECK(spec.layout.tensors()[0].name == "head.weight");
}

TEST_CASE("parse_model: an error says line, column, what is wrong and the nearest valid name") {
  CHECK(refusal(mlp_with("type = \"dense\"\nunit = 2\n")) ==
        "line 6, column 1: unknown key 'unit' in a layer of type \"dense\"; did you mean 'units'?");
  CHECK(refusal(mlp_with("type = \"dnese\"\n")) ==
        "line 5, column 8: unknown layer type 'dnese'; did you mean 'dense'?");
  CHECK(refusal("[model]\nimput = [4]\nclasses = 2\n") ==
        "line 2, column 1: unknown key 'imput' in [model]; did you mean 'input'?");
  CHECK(refusal("[model]\ninput = [4\nclasses = 2\n").starts_with("line 3, column 1"));
  CHECK(refusal(mlp_with("type = \"dense\"\n")) ==
        "line 4, column 1: layer 'dense1' needs 'units'");
  CHECK(refusal(mlp_with("type = \"dense\"\nunits = 0\n")) ==
        "line 6, column 9: 'units' must be a whole number from 1 to 16777216");
  CHECK(refusal("") == "the table [model] is missing");
  CHECK(refusal("[model]\ninput = [4]\nclasses = 2\n") ==
        "line 1, column 1: give at least one [[layer]]");
}

TEST_CASE("parse_model: shapes are checked through the whole net") {
  CHECK(refusal(cnn_with("type = 'dense'\nunits = 2\n"))
            .find("layer 'dense1' needs a flat input, gets [1, 8, 6]") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'conv2d'\nfilters = 2\nkernel = 3\n"))
            .find("needs an image [channels, height, width], gets [4]") != std::string::npos);
  CHECK(refusal(cnn_with("type = 'conv2d'\nfilters = 2\nkernel = 7\n"))
            .find("kernel 7 is larger than the padded image of 8 x 6") != std::string::npos);
  CHECK(refusal(cnn_with("type = 'conv2d'\nfilters = 2\nkernel = 3\npadding = 3\n"))
            .find("padding 3 must be smaller than kernel 3") != std::string::npos);
  CHECK(refusal(cnn_with("type = 'maxpool2d'\nkernel = 7\n"))
            .find("kernel 7 is larger than the image of 8 x 6") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'maxpool1d'\nkernel = 5\n"))
            .find("kernel 5 is longer than the signal of 4") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'globalavgpool'\n")).find("gets [4]") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'group_norm'\ngroups = 3\n"))
            .find("groups 3 must divide its 4 channels") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'group_norm'\ngroups = 4\n")).find("groups of one value") !=
        std::string::npos);
  CHECK(refusal(mlp_with("type = 'dense'\nunits = 3\n"))
            .find("gives [3] but must give one output for each of the 2 classes") !=
        std::string::npos);
  CHECK(refusal(mlp_with("type = 'relu'\n")).find("gives [4]") != std::string::npos);
}

TEST_CASE("parse_model: a signal is [length], [channels, length] or what a conv1d gives") {
  const std::string conv = "type = 'conv1d'\nfilters = 6\nkernel = 3\n";
  const auto shapes = [&](const std::string& input, const std::string& keys) {
    return test::model_of("[model]\ninput = " + input + "\nclasses = 2\n[[layer]]\n" + conv + keys +
                          "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 2\n");
  };
  const ModelSpec flat = shapes("[20]", "stride = 2\n");
  CHECK(flat.layers[0].output_shape == std::vector<uint32_t>{6, 1, 9});
  CHECK(flat.layout.tensors()[0].shape == std::vector<uint32_t>{6, 1, 3});
  const ModelSpec three = shapes("[3, 20]", "groups = 3\ndilation = 4\n[[layer]]\n" + conv);
  CHECK(three.layers[0].output_shape == std::vector<uint32_t>{6, 1, 12});
  CHECK(three.layers[1].output_shape == std::vector<uint32_t>{6, 1, 10});
  CHECK(three.layout.tensors()[0].shape == std::vector<uint32_t>{6, 1, 3});
  CHECK(refusal("[model]\ninput = [3, 8, 6]\nclasses = 2\n[[layer]]\n" + conv)
            .find("gets the image [3, 8, 6]") != std::string::npos);
  CHECK(refusal(mlp_with(conv + "dilation = 2\n"))
            .find("kernel 3 with dilation 2, 5 wide, is longer than the padded signal of 4") !=
        std::string::npos);
  CHECK(refusal(mlp_with(conv + "groups = 2\n"))
            .find("groups 2 must divide its 1 channels and 6 filters") != std::string::npos);
  CHECK(refusal(mlp_with(conv + "padding = 5\ndilation = 2\n"))
            .find("padding 5 must be smaller than the 5 that") != std::string::npos);
}

TEST_CASE("parse_model: sizes that multiply without bound are refused, never allocated") {
  CHECK(refusal("[model]\ninput = [16777216, 16777216]\nclasses = 2\n").find("features") !=
        std::string::npos);
  CHECK(refusal(cnn_with("type = 'conv2d'\nfilters = 16777216\nkernel = 1024\npadding = 1023\n"))
            .find("more than 16777216 outputs") != std::string::npos);
  CHECK(
      refusal(mlp_with("type = 'dense'\nunits = 16777216\n[[layer]]\ntype = 'dense'\nunits = 2\n"))
          .find("more than 67108864 elements") != std::string::npos);
  CHECK(refusal(mlp_with("type = 'dense'\nunits = 2\nname = '../x'\n")).find("'name' must be") !=
        std::string::npos);
}

TEST_CASE("parse_model: layers take what they name, add and concat several") {
  const ModelSpec spec = test::model_of(test::kSmallGraph);
  CHECK(spec.layers[0].inputs == std::vector<uint32_t>{0});
  CHECK(spec.layers[2].inputs == std::vector<uint32_t>{1});
  CHECK(spec.layers[3].inputs == std::vector<uint32_t>{3});
  CHECK(spec.layers[4].inputs == std::vector<uint32_t>{2, 4, 1});
  CHECK(spec.layers[4].output_shape == std::vector<uint32_t>{9, 1, 12});
  CHECK(spec.layers[9].inputs == std::vector<uint32_t>{9, 7});
  CHECK(spec.layers[9].output_shape == std::vector<uint32_t>{6});
}

TEST_CASE("parse_model: a graph that does not hold together is refused, naming the layers") {
  const std::string head = "type = 'dense'\nname = 'a'\nunits = 2\n[[layer]]\n";
  const auto after = [&](const std::string& layer) { return refusal(mlp_with(head + layer)); };
  const std::string end = "\n[[layer]]\ntype = 'dense'\nunits = 2\n";
  // Itself, what comes later, what is nowhere, what is almost there.
  CHECK(after("type = 'add'\nname = 'sum'\ninputs = ['a', 'sum']\n") ==
        "line 11, column 16: layer 'sum' takes 'sum', but no layer before it has that name");
  CHECK(after("type = 'tanh'\ninput = 'later'\n[[layer]]\ntype = 'relu'\nname = 'later'\n") ==
        "line 10, column 9: layer 'tanh1' takes 'later', but no layer before it has that name");
  CHECK(after("type = 'relu'\ninput = 'inptu'\n").ends_with("; did you mean 'input'?"));
  CHECK(after("type = 'relu'\ninput = 1\n").find("layer 'relu1' takes ''") != std::string::npos);
  CHECK(after("type = 'relu'\ninputs = ['a', 'input']\n").find("did you mean 'input'?") !=
        std::string::npos);
  CHECK(
      after("type = 'relu'\nname = 'a'\n") ==
      "line 8, column 1: the name 'a' is another layer's already; give this layer one of its own");
  CHECK(after("type = 'relu'\nname = 'input'\n").find("is that of the model's input") !=
        std::string::npos);
  CHECK(
      after("type = 'dense'\ninput = 'input'\nunits = 2\n") ==
      "line 4, column 1: no layer takes what layer 'a' gives; leave it out, or name it as another "
      "layer's input");
  CHECK(after("type = 'add'\ninputs = ['a', 'input']\n") ==
        "line 8, column 1: layer 'add1' takes [2] from 'a' and [4] from 'input'; what it adds must "
        "have one shape");
  const std::string many = "inputs = ['a', 'input'" + [] {
    std::string names;
    for (int i = 0; i < 5000; ++i) names += ", 'a'";
    return names;
  }() + "]\n";
  for (const std::string& inputs : {std::string(), std::string("inputs = 'a'\n"), many,
                                    std::string("inputs = ['a']\n"), std::string("inputs = []\n")})
    CHECK(after("type = 'concat'\n" + inputs)
              .find("layer 'concat1' needs 'inputs', a list of 2 to") != std::string::npos);
  CHECK(after("type = 'concat'\ninputs = ['a', 'a']\n").find("takes 'a' twice") !=
        std::string::npos);
  CHECK(after("type = 'add'\nfrozen = true\ninputs = ['a', 'input']\n").find("'frozen'") !=
        std::string::npos);
  CHECK(refusal(cnn_with("type = 'conv2d'\nfilters = 2\nkernel = 3\n[[layer]]\ntype = 'concat'\n"
                         "inputs = ['input', 'conv2d1']" +
                         end))
            .find("takes [1, 8, 6] from 'input' and [2, 6, 4] from 'conv2d1'; they may differ in "
                  "channels only") != std::string::npos);
}

TEST_CASE("parse_model: joined sizes are bounded, and any names are an error or a graph") {
  const std::string wide =
      "type = 'dense'\nunits = 16000000\n[[layer]]\ntype = 'tanh'\n[[layer]]\n";
  CHECK(refusal(mlp_with(wide + "type = 'concat'\ninputs = ['dense1', 'tanh1']\n"))
            .find("layer 'concat1' has more than 16777216 outputs") != std::string::npos);
  Random random(test::seed(), 13);
  for (int i = 0; i < 500; ++i) {
    std::string text = test::random_graph(random);
    // One name becomes another.
    const size_t from = text.find("'v", static_cast<size_t>(random.below(text.size())));
    if (from == std::string::npos) continue;
    text[from + 2] = static_cast<char>('0' + random.below(10));
    const auto spec = parse_model(text);
    for (size_t layer = 0; spec && layer < spec->layers.size(); ++layer)
      for (const uint32_t input : spec->layers[layer].inputs) REQUIRE(input <= layer);
  }
}

TEST_CASE("parse_model: a fraction has a preset and bounds") {
  const auto with_slope = [](const std::string& slope) {
    return mlp_with("type = 'leaky_relu'\n" + slope + "[[layer]]\ntype = 'dense'\nunits = 2\n");
  };
  CHECK(test::model_of(with_slope("")).layers[0].slope == 0.01f);
  CHECK(test::model_of(with_slope("slope = 1\n")).layers[0].slope == 1.0f);
  CHECK(refusal(with_slope("slope = 0.0\n")) ==
        "line 6, column 9: 'slope' must be a number from 1e-06 to 1");
  CHECK(refusal(with_slope("slope = nan\n")).find("'slope' must be") != std::string::npos);
  CHECK(refusal(with_slope("slope = 'a'\n")).find("'slope' must be") != std::string::npos);
}

TEST_CASE("parse_model: frozen is a key of layers that learn, and not of all of them") {
  const std::string dense = "type = 'dense'\nunits = 2\nfrozen = ";
  CHECK(refusal(mlp_with(dense + "true\n")).find("every layer is frozen") != std::string::npos);
  CHECK(refusal(mlp_with(dense + "1\n")).find("'frozen' must be true, false") != std::string::npos);
  CHECK(test::model_of(mlp_with(dense + "'weights'\n")).layers[0].frozen == Frozen::kWeights);
  CHECK(refusal(mlp_with("type = 'relu'\nfrozen = true\n")).find("unknown key 'frozen'") !=
        std::string::npos);
  const std::string head = "[[layer]]\ntype = 'dense'\nunits = 2\n[training]\nkeep = 0.9\n";
  const auto run = parse_run(mlp_with(dense + "true\n" + head));
  CHECK(run.error().message().find("keep 0.9 would shrink layer 'dense1'") != std::string::npos);
}

TEST_CASE("init_parameters: He-uniform within its limit, zero biases and pads, by the seed alone") {
  const ModelSpec spec = test::model_of(test::kSmallCnn);
  std::vector<float> a(test::parameter_floats(spec), 7.0f), b(a), c(a);
  init_parameters(spec, 1, a);
  init_parameters(spec, 1, b);
  init_parameters(spec, 2, c);
  CHECK(a == b);
  CHECK(a != c);
  uint64_t outside = 0;
  double squares = 0.0;
  const TensorSpec& conv = spec.layout.tensors()[0];
  const double limit = std::sqrt(6.0 / 18.0);
  for (float weight : test::tensor_of(std::span(a), conv)) {
    outside += std::abs(static_cast<double>(weight)) > limit * 1.000001 ? 1 : 0;
    squares += static_cast<double>(weight) * static_cast<double>(weight);
  }
  CHECK(outside == 0);
  CHECK(squares / static_cast<double>(conv.count) == doctest::Approx(2.0 / 18.0).epsilon(0.3));
  CHECK(test::all_zero(test::pads_after(a, conv)));
  CHECK(test::all_zero(test::tensor_of(std::span<const float>(a), spec.layout.tensors()[1])));
}

TEST_CASE("init_parameters: the same bytes on every machine") {
  const ModelSpec spec = test::model_of(test::kSmallCnn);
  std::vector<float> parameters(test::parameter_floats(spec));
  init_parameters(spec, 42, parameters);
  CHECK(model_checksum(parameters) == 0xFAC1A219u);
}

TEST_SUITE_END();

}  // namespace paceline
