// Every backend of this machine against the reference.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "runtime/base/log.h"
#include "runtime/train/gemm.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

// Of a tensor's largest gradient. A gradient is a sum of at most some thousand float products in
// another order, with one rounding less where the CPU fuses.
constexpr double kTolerance = 3e-5;

std::string number(std::string_view key, uint64_t value) {
  return std::string(key) + " = " + std::to_string(value) + "\n";
}

std::string random_mlp(Random& random) {
  std::string text = "[model]\n" + std::string("input = [") + std::to_string(1 + random.below(90)) +
                     "]\nclasses = 3\n";
  for (uint64_t layer = random.below(3); layer > 0; --layer)
    text += "[[layer]]\ntype = 'dense'\n" + number("units", 1 + random.below(70)) +
            "[[layer]]\ntype = 'relu'\n";
  return text + "[[layer]]\ntype = 'dense'\nunits = 3\n";
}

std::string random_cnn(Random& random) {
  const auto size = [&random] { return std::to_string(11 + random.below(9)); };
  std::string text = "[model]\ninput = [" + std::to_string(1 + random.below(4)) + ", " + size() +
                     ", " + size() + "]\nclasses = 5\n";
  for (int layer = 0; layer < 2; ++layer) {
    const uint64_t kernel = 1 + random.below(3);
    text += "[[layer]]\ntype = 'conv2d'\n" + number("filters", 1 + random.below(37)) +
            number("kernel", kernel) + number("stride", 1 + random.below(2)) +
            number("padding", random.below(kernel)) + "[[layer]]\ntype = 'relu'\n";
  }
  if (random.below(2)) text += "[[layer]]\ntype = 'maxpool2d'\nkernel = 2\n";
  return text + "[[layer]]\ntype = 'flatten'\n[[layer]]\ntype = 'dense'\nunits = 5\n";
}

// The largest difference in a tensor, as a share of its largest value; of one whose values are all
// next to nothing, as those of a bias in front of a normalisation are, of 0.01.
double worst_share(std::span<const float> values, std::span<const float> wanted) {
  double largest = 1e-2, worst = 0.0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double exact = static_cast<double>(wanted[i]);
    const double off = std::abs(static_cast<double>(values[i]) - exact);
    largest = std::max(largest, std::abs(exact));
    worst = off <= worst ? worst : off;  // NaN is the worst
  }
  return worst / largest;
}

void check_against_reference(const std::string& toml, const std::vector<size_t>& batches,
                             Random& random, const LossOptions& options = {}) {
  const ModelSpec spec = test::model_of(toml);
  const std::vector<float> parameters = test::random_parameters(spec, random);
  std::vector<float> wanted(parameters.size()), gradient(parameters.size());
  std::vector<std::unique_ptr<Trainer>> trainers;
  for (const std::string& backend : backends())
    trainers.push_back(std::move(*make_trainer(spec, 40, backend, options)));
  for (size_t rows : batches) {
    const test::Batch batch = test::random_batch(spec, rows, random);
    const auto wanted_loss =
        trainers.back()->gradient(parameters, batch.features, batch.targets(), wanted);
    for (const std::unique_ptr<Trainer>& trainer : trainers) {
      INFO(toml, "backend ", trainer->backend_name(), ", batch ", rows);
      std::fill(gradient.begin(), gradient.end(), NAN);
      const auto loss = trainer->gradient(parameters, batch.features, batch.targets(), gradient);
      REQUIRE(loss.has_value());
      REQUIRE(std::abs(*loss - *wanted_loss) <= 1e-5f * (1.0f + *wanted_loss));
      for (const TensorSpec& tensor : spec.layout.tensors()) {
        INFO(tensor.name);
        REQUIRE(worst_share(test::tensor_of(std::span<const float>(gradient), tensor),
                            test::tensor_of(std::span<const float>(wanted), tensor)) <= kTolerance);
        REQUIRE(test::all_zero(test::pads_after(gradient, tensor)));
      }
    }
  }
}

void wrong_kernel(size_t rows, size_t columns, size_t, const float*, size_t, const float*, float* c,
                  size_t c_stride_bytes, size_t, const void*) {
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      c[row * c_stride_bytes / sizeof(float) + column] = 1.0f;
}

}  // namespace

TEST_SUITE_BEGIN("train/backend");

TEST_CASE("backends: best first, reference last, and auto takes the first") {
  const std::vector<std::string> names = backends();
  for (const std::string& name : names) std::printf("backend %s\n", name.c_str());
  CHECK(names.size() >= 2);
  CHECK(names.back() == "reference");
  CHECK(std::find(names.begin(), names.end(), "own") != names.end());
  const ModelSpec spec = test::model_of(test::kSmallMlp);
  CHECK((*make_trainer(spec, 4, "auto"))->backend_name() == names.front());
}

TEST_CASE("backends: every set of this build that the CPU has is usable") {
  size_t expected = 0;
  for (const std::span<const GemmKernels> sets : {xnnpack_gemm_kernels(), own_gemm_kernels()})
    for (const GemmKernels& kernels : sets) expected += kernels.cpu_can() ? 1 : 0;
  CHECK(usable_gemm_kernels().size() == expected);
}

TEST_CASE("gradient: convolutions with groups or dilation run on every backend") {
  Random random(test::seed(), 40);
  for (const char* keys : {"groups = 3\n", "dilation = 2\n"})
    check_against_reference(
        "[model]\ninput = [6, 12, 11]\nclasses = 5\n[[layer]]\n"
        "type = 'conv2d'\nfilters = 9\nkernel = 3\n" +
            std::string(keys) +
            "[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'flatten'\n"
            "[[layer]]\ntype = 'dense'\nunits = 5\n",
        {1, 7}, random);
}

TEST_CASE("make_trainer: an unknown backend or an impossible batch is an error") {
  const ModelSpec spec = test::model_of(test::kSmallMlp);
  const auto unknown = make_trainer(spec, 4, "refrence");
  REQUIRE(!unknown.has_value());
  CHECK(unknown.error().code() == Code::kUnsupported);
  CHECK(unknown.error().message().find("did you mean 'reference'?") != std::string::npos);
  CHECK(make_trainer(spec, 0, "auto").error().code() == Code::kInvalidArgument);
  const ModelSpec wide = test::model_of(
      "[model]\ninput = [100000]\nclasses = 2\n[[layer]]\ntype = 'relu'\n[[layer]]\ntype = "
      "'dense'\nunits = 2\n");
  const auto large = make_trainer(wide, 65536, "auto");
  REQUIRE(!large.has_value());
  CHECK(large.error().code() == Code::kResourceExhausted);
}

TEST_CASE("gradient: fully connected nets of odd sizes agree with the reference, batch 1 to 33") {
  Random random(test::seed(), 1);
  std::vector<size_t> batches;
  for (size_t rows = 1; rows <= 33; ++rows) batches.push_back(rows);
  for (int net = 0; net < 4; ++net) check_against_reference(random_mlp(random), batches, random);
}

TEST_CASE("gradient: convolutions of odd sizes agree with the reference") {
  Random random(test::seed(), 2);
  for (int net = 0; net < 8; ++net) check_against_reference(random_cnn(random), {1, 3, 17}, random);
}

TEST_CASE("gradient: graphs agree with the reference") {
  Random random(test::seed(), 5);
  check_against_reference(std::string(test::kSmallGraph), {1, 3, 17}, random);
  for (int net = 0; net < 6; ++net)
    check_against_reference(test::random_graph(random), {1, 9}, random);
}

TEST_CASE("gradient: two calls give the same bytes, whatever ran between") {
  const ModelSpec spec = test::model_of(test::kSmallCnn);
  Random random(test::seed(), 3);
  std::vector<float> parameters(test::parameter_floats(spec));
  init_parameters(spec, 1, parameters);
  std::vector<float> first(parameters.size()), second(parameters.size());
  const test::Batch batch = test::random_batch(spec, 9, random);
  const test::Batch other = test::random_batch(spec, 12, random);
  for (const std::string& backend : backends()) {
    auto trainer = make_trainer(spec, 12, backend);
    (void)(*trainer)->gradient(parameters, batch.features, batch.labels, first);
    (void)(*trainer)->gradient(parameters, other.features, other.labels, second);
    (void)(*trainer)->gradient(parameters, batch.features, batch.labels, second);
    CHECK(first == second);
  }
}

TEST_CASE("gradient: a diverged model shows as a loss that is not finite, on every backend") {
  const ModelSpec spec = test::model_of(test::kSmallCnn);
  Random random(test::seed(), 4);
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
  const test::Batch batch = test::random_batch(spec, 9, random);
  for (const std::string& backend : backends())
    for (const float poison :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      init_parameters(spec, 1, parameters);
      test::tensor_of(std::span(parameters), spec.layout.tensors()[4])[0] = poison;
      auto trainer = make_trainer(spec, 12, backend);
      const auto loss = (*trainer)->gradient(parameters, batch.features, batch.labels, gradient);
      REQUIRE(loss.has_value());
      INFO(backend);
      CHECK(!std::isfinite(*loss));
    }
}

TEST_CASE("gradient and step: a net learns what a linear one can't, on every backend") {
  const ModelSpec spec = test::model_of(
      "[model]\ninput = [2]\nclasses = 2\n[[layer]]\ntype = "
      "'dense'\nunits = 16\n[[layer]]\ntype = 'relu'\n"
      "[[layer]]\ntype = 'dense'\nunits = 2\n");
  const std::vector<float> features = {0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<int32_t> labels = {0, 1, 1, 0};  // exclusive or
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
  for (const std::string& backend : backends()) {
    auto trainer = make_trainer(spec, 4, backend);
    init_parameters(spec, 3, parameters);
    Optimizer sgd({}, parameters.size());
    float loss = 1.0f;
    for (int step = 0; step < 300; ++step) {
      loss = *(*trainer)->gradient(parameters, features, labels, gradient);
      sgd.step(gradient, 0.1f, parameters);
    }
    EvaluationCounts counts;
    REQUIRE((*trainer)->evaluate(parameters, features, labels, &counts).ok());
    INFO(backend);
    CHECK(loss < 0.05f);
    CHECK(counts.correct == 4);
  }
}

TEST_CASE("verify_gemm_kernels: a kernel that computes something else is refused by name") {
  const GemmShape shapes[] = {{4, 8, wrong_kernel, wrong_kernel}};
  const Status status = verify_gemm_kernels({"wrong", [] { return true; }, shapes});
  CHECK(status.code() == Code::kUnsupported);
  CHECK(status.message() == "kernel 4x8 gives a wrong product for 1 x 1 x 1");
}

TEST_CASE("kernels: nothing beyond A, the panel and C is read or written") {
  // Each operand ends where a page that may not be touched begins.
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const auto fenced = [page](size_t bytes) {
    const size_t whole = (bytes + page - 1) / page * page;
    void* map =
        mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map != MAP_FAILED);
    REQUIRE(mprotect(static_cast<std::byte*>(map) + whole, page, PROT_NONE) == 0);
    return reinterpret_cast<float*>(static_cast<std::byte*>(map) + whole - bytes);
  };
  const float no_clamp[2] = {-INFINITY, INFINITY};
  for (const GemmKernels* kernels : usable_gemm_kernels())
    for (const GemmShape& shape : kernels->shapes)
      for (const size_t depth : {1u, 2u, 3u, 5u, 7u})
        for (size_t columns : {size_t{1}, size_t{3}, size_t{shape.nr}}) {
          float* a = fenced(shape.mr * depth * sizeof(float));
          float* panel = fenced((depth + 1) * shape.nr * sizeof(float));
          float* c = fenced(shape.mr * columns * sizeof(float));
          shape.block(shape.mr, columns, depth * sizeof(float), a, depth * sizeof(float), panel, c,
                      columns * sizeof(float), shape.nr * sizeof(float), no_clamp);
          shape.row(1, columns, depth * sizeof(float), a + (shape.mr - 1) * depth,
                    depth * sizeof(float), panel, c + (shape.mr - 1) * columns,
                    columns * sizeof(float), shape.nr * sizeof(float), no_clamp);
        }
}

TEST_CASE("evaluate: counts agree with the outputs, ties go to the lowest class, calls add up") {
  const ModelSpec spec = test::model_of(
      "[model]\ninput = [1]\nclasses = 3\n[[layer]]\ntype = "
      "'dense'\nunits = 3\n");
  std::vector<float> parameters(test::parameter_floats(spec), 0.0f);
  const std::vector<float> features = {1.0f, 1.0f, 1.0f};
  const std::vector<int32_t> labels = {0, 1, 2};
  for (const std::string& backend : backends()) {
    auto trainer = make_trainer(spec, 3, backend);
    EvaluationCounts counts;
    REQUIRE((*trainer)->evaluate(parameters, features, labels, &counts).ok());
    CHECK(counts.rows == 3);
    CHECK(counts.correct == 1);
    CHECK(counts.loss_fixed16 == 3 * 71999);  // round(ln 3 * 65536)
    REQUIRE((*trainer)->evaluate(parameters, features, labels, &counts).ok());
    CHECK(counts.rows == 6);
    CHECK(counts.loss_fixed16 == 6 * 71999);
  }
}

TEST_CASE("gradient: the losses of numbers agree on every backend") {
  Random random(test::seed(), 31);
  for (const LossKind kind : {LossKind::kMse, LossKind::kHuber}) {
    LossOptions options;
    options.kind = kind;
    check_against_reference(
        "[model]\ninput = [29]\noutputs = 3\n[[layer]]\ntype = 'dense'\nunits = 21\n"
        "[[layer]]\ntype = 'relu'\n[[layer]]\ntype = 'dense'\nunits = 3\n",
        {1, 7, 40}, random, options);
  }
}

TEST_CASE("evaluate: a row's loss is clamped, NaN included") {
  const ModelSpec spec = test::model_of(
      "[model]\ninput = [1]\nclasses = 2\n[[layer]]\ntype = "
      "'dense'\nunits = 2\n");
  std::vector<float> parameters(test::parameter_floats(spec), 0.0f);
  auto trainer = make_trainer(spec, 1, "reference");
  for (const float feature : {1e4f, std::numeric_limits<float>::quiet_NaN()}) {
    parameters[0] = 1.0f;
    EvaluationCounts counts;
    REQUIRE((*trainer)->evaluate(parameters, {{feature}}, std::vector<int32_t>{1}, &counts).ok());
    CHECK(counts.loss_fixed16 == 64 * 65536 - 1);
  }
}

TEST_CASE("gradient and evaluate: labels and sizes are checked before anything is computed") {
  const ModelSpec spec = test::model_of(test::kSmallMlp);
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size(), 5.0f);
  auto trainer = make_trainer(spec, 2, "auto");
  const std::vector<float> features(26);
  EvaluationCounts counts;
  const auto refused = [&](std::vector<int32_t> labels, size_t feature_floats) {
    const std::span<const float> given(features.data(), feature_floats);
    const Status status = (*trainer)->evaluate(parameters, given, labels, &counts);
    const auto loss = (*trainer)->gradient(parameters, given, labels, gradient);
    CHECK(status.code() == Code::kInvalidArgument);
    return !loss.has_value() && loss.error().message() == status.message() ? status.message() : "";
  };
  CHECK(refused({0, 3}, 26) == "row 1 of the batch: label 3, must be 0 to 2");
  CHECK(refused({-1, 0}, 26) == "row 0 of the batch: label -1, must be 0 to 2");
  CHECK(refused({}, 0) == "a batch of 0 rows, must have 1 to 2");
  CHECK(refused({0, 0}, 25) == "2 labels need 2 x 13 features, got 25");
  CHECK(counts.rows == 0);
  CHECK(gradient[0] == 5.0f);
}

TEST_SUITE_END();

}  // namespace paceline
