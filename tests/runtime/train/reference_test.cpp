// The reference backend against numerical derivatives, and its bytes against constants.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/checksum.h"
#include "runtime/train/statistics.h"
#include "tests/runtime/train/naive_net.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

// Twenty steps from a fixed start; the checksum of the model.
uint32_t trained_checksum(std::string_view toml, const OptimizerOptions& options = {}) {
  const ModelSpec spec = test::model_of(toml);
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
  init_parameters(spec, 7, parameters);
  auto trainer = make_trainer(spec, 8, "reference");
  REQUIRE(trainer.has_value());
  Optimizer optimizer(options, parameters.size());
  Random random(7, 99);
  for (int step = 0; step < 20; ++step) {
    const test::Batch batch = test::random_batch(spec, 8, random);
    REQUIRE((*trainer)->gradient(parameters, batch.features, batch.labels, gradient).has_value());
    optimizer.step(gradient, 0.05f, parameters);
  }
  return model_checksum(parameters);
}

// A classifier behind one or more layers under test.
std::string net(std::string_view input, std::string_view layers) {
  return "[model]\ninput = " + std::string(input) + "\nclasses = 3\n" + std::string(layers) +
         "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 3\n";
}

// Largest difference between the gradient and the derivative, for a few parameters of each tensor.
// Features lie within `reach`.
void check_derivatives(std::string_view toml, const LossOptions& options = {}, float reach = 1) {
  const ModelSpec spec = test::model_of(toml);
  constexpr double kTolerance = 2e-6;  // float rounding of a gradient near 1, and of the difference
  Random random(test::seed(), 5);
  const std::vector<float> parameters = test::random_parameters(spec, random);
  std::vector<float> gradient(parameters.size(), 3.0f);
  test::Batch batch = test::random_batch(spec, 5, random);
  for (float& feature : batch.features) feature *= reach;
  auto trainer = make_trainer(spec, 6, "reference", options);
  REQUIRE(trainer.has_value());
  const auto loss = (*trainer)->gradient(parameters, batch.features, batch.targets(), gradient);
  REQUIRE(loss.has_value());
  const std::vector<double> exact(parameters.begin(), parameters.end());
  CHECK(std::abs(static_cast<double>(*loss) -
                 test::naive_loss(spec, exact, batch.features, batch.targets(), options)) < 1e-6);
  for (const TensorSpec& tensor : spec.layout.tensors())
    for (int sample = 0; sample < 12 && tensor.tensor_class != TensorClass::kStatistic; ++sample) {
      const auto index = static_cast<size_t>(tensor.offset + random.below(tensor.count));
      const double derivative =
          test::naive_derivative(spec, parameters, index, batch.features, batch.targets(), options);
      INFO(tensor.name, " element ", index - tensor.offset);
      CHECK(std::abs(static_cast<double>(gradient[index]) - derivative) < kTolerance);
    }
  for (const TensorSpec& tensor : spec.layout.tensors())
    REQUIRE(test::all_zero(test::pads_after(gradient, tensor)));
}

// Signals whose first or second half lies higher: the share that a net tells apart in the end.
double learnt_share(const std::string& layers) {
  const ModelSpec spec =
      test::model_of("[model]\ninput = [2, 16]\nclasses = 2\n" + layers +
                     "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 2\n");
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
  init_parameters(spec, 3, parameters);
  auto trainer = *make_trainer(spec, 32, "reference");
  Optimizer optimizer({.kind = OptimizerKind::kAdam}, parameters.size());
  StatisticsPool pool(spec.layout);
  Random random(3, 4);
  const auto draw = [&] {
    test::Batch batch = test::random_batch(spec, 32, random);
    for (size_t i = 0; i < batch.features.size(); ++i)
      if (static_cast<int32_t>(i / 8 % 2) == batch.labels[i / 32]) batch.features[i] += 0.6f;
    return batch;
  };
  for (int step = 0; step < 200; ++step) {
    const test::Batch batch = draw();
    REQUIRE(trainer->gradient(parameters, batch.features, batch.labels, gradient).has_value());
    pool.weigh_at_most(9 * 32);
    pool.take_batch(32, gradient);
    optimizer.step(gradient, 0.02f, parameters);
  }
  pool.publish(parameters);
  EvaluationCounts counts;
  for (int i = 0; i < 10; ++i) {
    const test::Batch batch = draw();
    REQUIRE(trainer->evaluate(parameters, batch.features, batch.labels, &counts).ok());
  }
  return static_cast<double>(counts.correct) / static_cast<double>(counts.rows);
}

}  // namespace

TEST_SUITE_BEGIN("train/reference");

TEST_CASE("a net with any layer learns to tell two kinds of signals apart") {
  const std::string conv = "[[layer]]\ntype = 'conv1d'\nfilters = 6\nkernel = 3\n";
  for (const char* layer :
       {"'conv1d'\nfilters = 6\nkernel = 3\ngroups = 6\ndilation = 2", "'relu'", "'leaky_relu'",
        "'tanh'", "'sigmoid'", "'gelu'", "'maxpool1d'\nkernel = 2", "'avgpool1d'\nkernel = 2",
        "'group_norm'\ngroups = 3", "'layer_norm'", "'batch_norm'", "'dropout'\nrate = 0.2",
        "'lstm'\nunits = 8", "'gru'\nunits = 8", "'gru'\nunits = 6\nsequence = true", "'transpose'",
        "'conv1d'\nfilters = 6\nkernel = 3\npadding = 1\n[[layer]]\ntype = 'relu'\n[[layer]]\n"
        "type = 'add'\ninputs = ['conv1d1', 'relu1']",
        "'conv1d'\nfilters = 3\nkernel = 1\n[[layer]]\ntype = 'conv1d'\ninput = 'conv1d1'\n"
        "filters = 3\nkernel = 5\npadding = 2\n[[layer]]\ntype = 'concat'\n"
        "inputs = ['conv1d2', 'conv1d3']\n[[layer]]\ntype = 'relu'"}) {
    INFO(layer);
    CHECK(learnt_share(conv + "[[layer]]\ntype = " + layer + "\n") > 0.9);
  }
}

TEST_CASE("gradient: every layer agrees with the derivative of its definition") {
  check_derivatives(net("[7]", ""));
  check_derivatives(net("[7]", "[[layer]]\ntype = 'dense'\nunits = 9\n"));
  check_derivatives(net("[7]",
                        "[[layer]]\ntype = 'dense'\nunits = 9\n[[layer]]\ntype = 'relu'\n"
                        "[[layer]]\ntype = 'relu'\n"));
  check_derivatives(net("[2, 6, 5]", "[[layer]]\ntype = 'relu'\n"));
  check_derivatives(net("[2, 6, 5]", "[[layer]]\ntype = 'maxpool2d'\nkernel = 2\n"));
  const std::string first = "[[layer]]\ntype = 'conv2d'\nfilters = 3\nkernel = 2\n";
  check_derivatives(net("[2, 6, 5]", first));
  check_derivatives(net("[2, 7, 6]", first + "[[layer]]\ntype = 'maxpool2d'\nkernel = 2\n"));
  check_derivatives(
      net("[2, 7, 6]", first + "[[layer]]\ntype = 'maxpool2d'\nkernel = 3\nstride = 1\n"));
  for (int kernel = 1; kernel <= 4; ++kernel)
    for (int stride = 1; stride <= 3; ++stride)
      for (int padding = 0; padding < std::min(kernel, 3); ++padding)
        check_derivatives(net("[2, 7, 6]", first + format_text("[[layer]]\ntype = 'conv2d'\n"
                                                               "filters = 4\nkernel = %d\n"
                                                               "stride = %d\npadding = %d\n",
                                                               kernel, stride, padding)));
}

TEST_CASE("gradient: every activation agrees with the derivative of its definition") {
  for (const char* type : {"relu", "leaky_relu", "tanh", "sigmoid", "gelu"}) {
    const std::string layer = format_text("[[layer]]\ntype = '%s'\n", type);
    check_derivatives(net("[7]", layer));
    check_derivatives(net("[7]", "[[layer]]\ntype = 'dense'\nunits = 9\n" + layer));
    check_derivatives(net("[7]", "[[layer]]\ntype = 'dense'\nunits = 9\n" + layer + layer));
    check_derivatives(net("[2, 7, 6]", "[[layer]]\ntype = 'conv2d'\nfilters = 3\nkernel = 3\n" +
                                           layer + "[[layer]]\ntype = 'maxpool2d'\nkernel = 2\n"));
  }
  check_derivatives(net("[7]",
                        "[[layer]]\ntype = 'dense'\nunits = 9\n"
                        "[[layer]]\ntype = 'leaky_relu'\nslope = 0.3\n"));
}

TEST_CASE("gradient: convolutions of any shape, with groups and dilation, agree with theirs") {
  Random random(test::seed(), 6);
  for (int i = 0; i < 60; ++i) {
    const bool flat = i % 2 == 0;
    const uint64_t groups = 1 + random.below(3);
    const uint64_t kernel = 1 + random.below(4), dilation = 1 + random.below(3);
    const uint64_t span = (kernel - 1) * dilation + 1, padding = random.below(span);
    const uint64_t before = groups * (1 + random.below(2)),
                   filters = groups * (1 + random.below(3));
    const std::string type = flat ? "[[layer]]\ntype = 'conv1d'\n" : "[[layer]]\ntype = 'conv2d'\n";
    const auto size = [&] { return static_cast<int>(span + random.below(6)); };
    const std::string input =
        flat ? format_text("[%d, %d]", 1 + static_cast<int>(random.below(3)), size())
             : format_text("[2, %d, %d]", size(), size());
    check_derivatives(net(
        input, type + format_text("filters = %d\nkernel = 1\n", static_cast<int>(before)) + type +
                   format_text("filters = %d\nkernel = %d\nstride = %d\npadding = %d\n"
                               "dilation = %d\ngroups = %d\n",
                               static_cast<int>(filters), static_cast<int>(kernel),
                               1 + static_cast<int>(random.below(3)), static_cast<int>(padding),
                               static_cast<int>(dilation), static_cast<int>(groups))));
  }
}

TEST_CASE("gradient: pools of any shape agree with theirs") {
  Random random(test::seed(), 7);
  for (int i = 0; i < 48; ++i) {
    const bool flat = i % 2 == 0;
    const char* type = i % 4 < 2 ? "maxpool" : "avgpool";
    const int kernel = 1 + static_cast<int>(random.below(4));
    const int stride = 1 + static_cast<int>(random.below(3));
    const auto size = [&] { return kernel + 1 + static_cast<int>(random.below(6)); };
    const std::string input =
        flat ? format_text("[2, %d]", size()) : format_text("[2, %d, %d]", size(), size());
    const char* end = flat ? "1d" : "2d";
    check_derivatives(net(input, format_text("[[layer]]\ntype = 'conv%s'\nfilters = 3\nkernel = 2\n"
                                             "[[layer]]\ntype = '%s%s'\nkernel = %d\nstride = %d\n",
                                             end, type, end, kernel, stride)));
    check_derivatives(net(input, format_text("[[layer]]\ntype = 'conv%s'\nfilters = 3\nkernel = 2\n"
                                             "[[layer]]\ntype = 'globalavgpool'\n",
                                             end)));
  }
}

TEST_CASE("gradient: normalisations agree with theirs") {
  const auto norm = [](int groups) {
    return groups == 0 ? std::string("[[layer]]\ntype = 'layer_norm'\n")
                       : format_text("[[layer]]\ntype = 'group_norm'\ngroups = %d\n", groups);
  };
  for (const int groups : {0, 1, 2, 3, 6}) {
    const std::string conv =
        "filters = 6\nkernel = 3\n" + norm(groups) + "[[layer]]\ntype = 'tanh'\n";
    check_derivatives(net("[2, 7, 6]", "[[layer]]\ntype = 'conv2d'\n" + conv));
    check_derivatives(net("[2, 19]", "[[layer]]\ntype = 'conv1d'\n" + conv));
    check_derivatives(net("[12, 3, 2]", norm(groups)));
  }
  for (const int groups : {0, 1, 2, 4})
    check_derivatives(net("[7]", "[[layer]]\ntype = 'dense'\nunits = 40\n" + norm(groups)));
}

TEST_CASE("gradient: cells over signals of any shape agree with theirs") {
  Random random(test::seed(), 10);
  for (int i = 0; i < 40; ++i) {
    const int channels = 1 + static_cast<int>(random.below(4));
    const std::string cell =
        format_text("[[layer]]\ntype = '%s'\nunits = %d\n", i % 2 == 0 ? "lstm" : "gru",
                    1 + static_cast<int>(random.below(20)));
    const std::string input =
        format_text("[%d, %d]", channels, 1 + static_cast<int>(random.below(9)));
    switch (i / 2 % 5) {
      case 0:
        check_derivatives(net(input, cell));
        break;
      case 1:
        check_derivatives(net(input, cell + "sequence = true\n" + cell));
        break;
      case 2:
        check_derivatives(net(input, "[[layer]]\ntype = 'transpose'\n" + cell));
        break;
      case 3:
        check_derivatives(net(input, "[[layer]]\ntype = 'conv1d'\nfilters = 3\nkernel = 1\n" +
                                         cell + "sequence = 1\n[[layer]]\ntype = 'transpose'\n"));
        break;
      default:
        check_derivatives(net(format_text("[%d]", 2 * channels),
                              "[[layer]]\ntype = 'dense'\nunits = 12\n[[layer]]\ntype = "
                              "'reshape'\nchannels = 3\n" +
                                  cell));
    }
  }
}

TEST_CASE("gradient: an embedding agrees with its definition, also outside its table") {
  for (const int units : {1, 3, 17}) {
    const std::string layer =
        format_text("[[layer]]\ntype = 'embedding'\nentries = %d\nunits = %d\n", 5, units);
    check_derivatives(net("[6]", layer), {}, 7);
    check_derivatives(net("[1]", layer + "[[layer]]\ntype = 'tanh'\n"), {}, 7);
  }
}

TEST_CASE("gradient: small nets agree with the derivative of their definition") {
  check_derivatives(test::kSmallMlp);
  check_derivatives(test::kSmallCnn);
}

TEST_CASE("gradient: any graph agrees with the derivative of its definition") {
  check_derivatives(test::kSmallGraph);
  Random random(test::seed(), 11);
  for (int i = 0; i < 40; ++i) {
    const std::string toml = test::random_graph(random);
    INFO(toml);
    check_derivatives(toml);
  }
}

TEST_CASE("gradient: a net that takes its own input again, and ends in what works in place") {
  check_derivatives(
      "[model]\ninput = [3]\noutputs = 3\n[[layer]]\ntype = 'dense'\nunits = 3\n"
      "[[layer]]\ntype = 'tanh'\n[[layer]]\ntype = 'add'\ninputs = ['input', 'tanh1', 'dense1']\n"
      "[[layer]]\ntype = 'tanh'\n",
      {.kind = LossKind::kMse, .class_weights = {}});
  check_derivatives(
      "[model]\ninput = [9]\noutputs = 2\n[[layer]]\ntype = 'dense'\nunits = 40\n[[layer]]\n"
      "type = 'gelu'\n[[layer]]\ntype = 'dense'\nunits = 2\n[[layer]]\ntype = 'sigmoid'\n",
      {.kind = LossKind::kMse, .class_weights = {}});
}

TEST_CASE("gradient: in a graph, what is frozen is +0, the rest is as without") {
  const std::string plain(test::kSmallGraph);
  for (const char* name : {"stem", "narrow", "squeezed"}) {
    std::string text = plain;
    text.insert(text.find(std::string("name = \"") + name), "frozen = true\n");
    const ModelSpec spec = test::model_of(plain), frozen = test::model_of(text);
    Random random(test::seed(), 12);
    const std::vector<float> parameters = test::random_parameters(spec, random);
    const test::Batch batch = test::random_batch(spec, 6, random);
    for (const std::string& backend : backends()) {
      std::vector<float> wanted(parameters.size()), gradient(parameters.size(), 3.0f);
      auto a = *make_trainer(spec, 6, backend), b = *make_trainer(frozen, 6, backend);
      REQUIRE(a->gradient(parameters, batch.features, batch.labels, wanted).has_value());
      REQUIRE(b->gradient(parameters, batch.features, batch.labels, gradient).has_value());
      for (const TensorSpec& tensor : spec.layout.tensors())
        if (tensor.name.starts_with(name))
          std::ranges::fill(test::tensor_of(std::span(wanted), tensor), 0.0f);
      CHECK(gradient == wanted);
    }
  }
}

TEST_CASE("gradient: the losses of numbers agree with the derivative of their definition") {
  for (const LossKind kind : {LossKind::kMse, LossKind::kHuber})
    for (const float delta : {0.05f, 1.0f})
      for (const int outputs : {1, 2, 5}) {
        LossOptions options;
        options.kind = kind;
        options.huber_delta = delta;
        check_derivatives(format_text("[model]\ninput = [7]\noutputs = %d\n[[layer]]\ntype = "
                                      "'dense'\nunits = 9\n[[layer]]\ntype = 'tanh'\n[[layer]]\n"
                                      "type = 'dense'\nunits = %d\n",
                                      outputs, outputs),
                          options);
      }
}

TEST_CASE("gradient: of what is frozen it is +0, the rest is as without; less memory is planned") {
  const auto toml = [](const char* first, const char* second) {
    return net("[2, 9, 8]", "[[layer]]\ntype = 'conv2d'\nfilters = 5\nkernel = 3\n" +
                                std::string(first) + "[[layer]]\ntype = 'tanh'\n" +
                                "[[layer]]\ntype = 'conv2d'\nfilters = 4\nkernel = 2\n" + second);
  };
  const std::string plain = toml("", "");
  for (const auto& [first, second] : {std::pair{"frozen = true\n", ""},
                                      {"frozen = true\n", "frozen = 'weights'\n"},
                                      {"", "frozen = true\n"}}) {
    const ModelSpec spec = test::model_of(plain), frozen = test::model_of(toml(first, second));
    Random random(test::seed(), 8);
    const std::vector<float> parameters = test::random_parameters(spec, random);
    const test::Batch batch = test::random_batch(spec, 6, random);
    for (const std::string& backend : backends()) {
      std::vector<float> wanted(parameters.size()), gradient(parameters.size(), 3.0f);
      auto a = *make_trainer(spec, 6, backend), b = *make_trainer(frozen, 6, backend);
      REQUIRE(a->gradient(parameters, batch.features, batch.labels, wanted).has_value());
      REQUIRE(b->gradient(parameters, batch.features, batch.labels, gradient).has_value());
      CHECK(b->planned_bytes() <= a->planned_bytes());
      const auto clear = [&](size_t tensor) {
        std::ranges::fill(test::tensor_of(std::span(wanted), spec.layout.tensors()[tensor]), 0.0f);
      };
      for (size_t layer : {0u, 1u}) {
        const Frozen kept = frozen.layers[2 * layer].frozen;
        if (kept != Frozen::kNone) clear(2 * layer);
        if (kept == Frozen::kAll) clear(2 * layer + 1);
      }
      CHECK(gradient == wanted);
    }
  }
}

TEST_CASE("gradient: label smoothing and class weights agree with the derivative of their loss") {
  constexpr size_t kClasses = 4, kRows = 9;
  Random random(test::seed(), 9);
  LossOptions options;
  options.smoothing = 0.2f;
  options.class_weights = {1.0f, 0.5f, 3.0f, 0.0f};
  std::vector<float> outputs(kClasses * kRows), losses(kRows);
  std::vector<int32_t> labels;
  for (float& value : outputs) value = 3.0f * random.symmetric();
  for (size_t row = 0; row < kRows; ++row)
    labels.push_back(static_cast<int32_t>(random.below(kClasses)));
  const auto mean_loss = [&](size_t moved, double by) {
    double total = 0;
    for (size_t row = 0; row < kRows; ++row) {
      double sum = 0, target = 0;
      const auto label = static_cast<size_t>(labels[row]);
      for (size_t c = 0; c < kClasses; ++c) {
        const size_t i = row * kClasses + c;
        const double z = static_cast<double>(outputs[i]) + (i == moved ? by : 0);
        sum += std::exp(z);
        target += z * ((c == label ? 0.8 : 0.0) + 0.2 / kClasses);
      }
      total += static_cast<double>(options.class_weights[label]) * (std::log(sum) - target);
    }
    return total / kRows;
  };
  std::vector<float> gradient = outputs;
  softmax_cross_entropy(kClasses, labels, gradient, losses, options);
  double mean = 0;
  for (float loss : losses) mean += static_cast<double>(loss) / kRows;
  CHECK(mean == doctest::Approx(mean_loss(0, 0)).epsilon(1e-5));
  softmax_gradient(kClasses, labels, gradient, options);
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double derivative = (mean_loss(i, 1e-6) - mean_loss(i, -1e-6)) / 2e-6;
    CHECK(std::abs(static_cast<double>(gradient[i]) - derivative) < 2e-6);
  }
}

TEST_CASE("gradient: twenty steps give the same bytes on every machine and compiler") {
  CHECK(trained_checksum(test::kSmallMlp) == 0x3EA9CAEEu);
  CHECK(trained_checksum(test::kSmallCnn) == 0x85BF09FEu);
  const std::string pooled =
      net("[2, 31]",
          "[[layer]]\ntype = 'conv1d'\nfilters = 6\nkernel = 3\n[[layer]]\ntype = 'group_norm'\n"
          "groups = 2\n[[layer]]\ntype = 'tanh'\n[[layer]]\ntype = 'avgpool1d'\nkernel = 2\n"
          "[[layer]]\ntype = 'conv1d'\nfilters = 6\nkernel = 3\ngroups = 3\ndilation = 2\n"
          "[[layer]]\ntype = 'gelu'\n[[layer]]\ntype = 'dropout'\n"
          "[[layer]]\ntype = 'maxpool1d'\nkernel = 2\n[[layer]]\ntype = 'layer_norm'\n"
          "[[layer]]\ntype = 'sigmoid'\n[[layer]]\ntype = 'globalavgpool'\n");
  CHECK(trained_checksum(pooled) == 0x16510CE3u);
  CHECK(trained_checksum(pooled, {.kind = OptimizerKind::kAdam, .clip = 0.5f}) == 0x4219B267u);
  CHECK(trained_checksum(pooled, {.kind = OptimizerKind::kRmsprop}) == 0xB13CAA9Eu);
  CHECK(trained_checksum(pooled, {.kind = OptimizerKind::kAdagrad}) == 0xA24E8F35u);
  CHECK(trained_checksum(net("[9]",
                             "[[layer]]\ntype = 'embedding'\nentries = 3\nunits = 5\n"
                             "[[layer]]\ntype = 'lstm'\nunits = 6\nsequence = true\n"
                             "[[layer]]\ntype = 'transpose'\n[[layer]]\ntype = 'gru'\n"
                             "units = 7\n")) == 0x29B18557u);
  CHECK(trained_checksum(test::kSmallGraph) == 0xF05D1840u);
}

TEST_SUITE_END();

}  // namespace paceline
