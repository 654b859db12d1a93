#include "runtime/train/recurrent.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr double kTolerance = 1e-6;

// A net of one cell that gives its states: what NumPy was asked below.
struct OneCell {
  explicit OneCell(const std::string& type, bool sequence)
      : spec(test::model_of("[model]\ninput = [2, 4]\noutputs = " +
                            std::string(sequence ? "12" : "3") + "\n[[layer]]\ntype = '" + type +
                            "'\nunits = 3\nsequence = " + (sequence ? "true" : "false") +
                            "\n[[layer]]\ntype = 'flatten'\n")),
        parameters(test::parameter_floats(spec)) {
    const auto weight = test::tensor_of(std::span(parameters), spec.layout.tensors()[0]);
    const auto bias = test::tensor_of(std::span(parameters), spec.layout.tensors()[1]);
    for (size_t i = 0; i < weight.size(); ++i)
      weight[i] = static_cast<float>(0.5 * std::cos(1.3 * static_cast<double>(i)));
    for (size_t i = 0; i < bias.size(); ++i)
      bias[i] = static_cast<float>(0.2 * std::sin(0.9 * static_cast<double>(i)));
    for (size_t i = 0; i < 8; ++i)
      row.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i) + 0.3)));
  }
  std::vector<float> answers() {
    std::vector<float> answers(spec.output_count);
    LossOptions loss;
    loss.kind = LossKind::kMse;
    auto trainer = *make_trainer(spec, 1, "reference", loss);
    REQUIRE(trainer->predict(parameters, row, answers).ok());
    return answers;
  }

  ModelSpec spec;
  std::vector<float> parameters, row;
};

}  // namespace

TEST_SUITE_BEGIN("train/recurrent");

// w[i] = 0.5 cos 1.3 i, b[i] = 0.2 sin 0.9 i, x[i] = sin(0.7 i + 0.3); two channels, four steps.
// From `a = W @ concatenate([x[:, t], h]) + b` and so on in NumPy's float64.
TEST_CASE("forward: lstm and gru give the states that NumPy gives, the last one as asked") {
  const double lstm[] = {-0.03761955217100612, 0.049275282955903894,   0.20329933306321937,
                         0.3037451100826927,   -0.0024200396057294147, 0.10828947039498908,
                         0.27439030721467506,  0.3900620124936857,     0.029349552351700624,
                         0.13911777503419565,  0.2880908097185274,     0.4021511813380736};
  const double gru[] = {-0.012889883658616291, 0.11403962268607279,  0.24570472359261453,
                        0.321639723534749,     0.019477138640992292, 0.16042021074334495,
                        0.30093663280360594,   0.3908499061785905,   0.032530737108072465,
                        0.1655188913611992,    0.30352309956494916,  0.40118558942865806};
  for (const auto& [type, expected] : {std::pair{"lstm", lstm}, {"gru", gru}}) {
    const std::vector<float> states = OneCell(type, true).answers();
    const std::vector<float> last = OneCell(type, false).answers();
    for (size_t i = 0; i < states.size(); ++i)
      CHECK(std::abs(static_cast<double>(states[i]) - expected[i]) < kTolerance);
    for (size_t unit = 0; unit < last.size(); ++unit) CHECK(last[unit] == states[4 * unit + 3]);
  }
}

TEST_CASE("parse: a cell wants a signal, and sequence is true or false") {
  const auto refusal = [](const char* input, const char* keys) {
    const auto spec = parse_model("[model]\ninput = " + std::string(input) +
                                  "\nclasses = 2\n[[layer]]\ntype = 'gru'\n" + keys);
    return spec ? std::string() : spec.error().message();
  };
  CHECK(refusal("[7]", "units = 2\n").empty());
  CHECK(refusal("[3, 5]", "units = 2\nsequence = false\n").empty());
  CHECK(refusal("[2, 3, 5]", "units = 2\n").find("needs a signal") != std::string::npos);
  CHECK(refusal("[7]", "units = 2\nsequence = 2\n").find("from 0 to 1") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace paceline
