// The layer that takes sparse rows, against a dense layer of the same weights.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/train/training.h"
#include "tests/runtime/train/nets.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/seed.h"

namespace paceline {
namespace {

constexpr uint32_t kEntries = 50, kUnits = 6, kRoom = 5, kRows = 9;

std::string net(bool sparse, bool hidden) {
  std::string text = sparse ? "[model]\ninput = [2, 5]\n" : "[model]\ninput = [50]\n";
  text += hidden ? "classes = 3\n" : "classes = 6\n";
  text += sparse ? "[[layer]]\ntype = 'sparse_dense'\nentries = 50\nunits = 6\n"
                 : "[[layer]]\ntype = 'dense'\nunits = 6\n";
  if (hidden) text += "[[layer]]\ntype = 'tanh'\n[[layer]]\ntype = 'dense'\nunits = 3\n";
  return text;
}

struct Pair {
  std::vector<float> sparse, dense;
  std::vector<int32_t> labels;
};

// The same rows twice. Some have fewer values than there is room for, some none.
Pair random_rows(Random& random, uint32_t class_count) {
  Pair rows;
  rows.sparse.resize(kRows * 2 * kRoom);
  rows.dense.resize(kRows * kEntries);
  for (size_t row = 0; row < kRows; ++row) {
    float* places = rows.sparse.data() + row * 2 * kRoom;
    uint32_t place = static_cast<uint32_t>(random.below(8));
    const uint64_t count = random.below(kRoom + 1);
    for (size_t i = 0; i < count; ++i, place += static_cast<uint32_t>(1 + random.below(10))) {
      places[i] = static_cast<float>(place);
      places[kRoom + i] = random.symmetric();
      rows.dense[row * kEntries + place] = places[kRoom + i];
    }
    rows.labels.push_back(static_cast<int32_t>(random.below(class_count)));
  }
  return rows;
}

// The weights of the one as those of the other; what follows the first layer lies alike.
std::vector<float> as_sparse(const ModelSpec& dense, const ModelSpec& sparse,
                             std::span<const float> from) {
  std::vector<float> to(test::parameter_floats(sparse));
  for (size_t t = 0; t < sparse.layout.tensors().size(); ++t) {
    const std::span<const float> source = test::tensor_of(from, dense.layout.tensors()[t]);
    const std::span<float> target = test::tensor_of(std::span(to), sparse.layout.tensors()[t]);
    for (size_t i = 0; i < target.size(); ++i)
      target[i] = t == 0 ? source[i % kUnits * kEntries + i / kUnits] : source[i];
  }
  return to;
}

double largest_gap(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return largest;
}

bool is_touched(std::span<const ElementRange> touched, size_t element) {
  return std::ranges::any_of(touched, [&](const ElementRange& range) {
    return element >= range.begin && element < range.end;
  });
}

}  // namespace

TEST_SUITE_BEGIN("train/sparse");

TEST_CASE("a net of sparse rows learns as the dense one does, and touches what its rows hold") {
  for (const bool hidden : {false, true}) {
    const ModelSpec dense = test::model_of(net(false, hidden));
    const ModelSpec sparse = test::model_of(net(true, hidden));
    Random random(test::seed(), hidden);
    std::vector<float> w_dense = test::random_parameters(dense, random);
    std::vector<float> w_sparse = as_sparse(dense, sparse, w_dense);
    std::vector<float> g_dense(w_dense.size()), g_sparse(w_sparse.size());
    for (const std::string& backend : backends()) {
      auto dense_trainer = *make_trainer(dense, kRows, backend);
      auto sparse_trainer = *make_trainer(sparse, kRows, backend);
      std::ranges::fill(g_sparse, 0.0f);
      const OptimizerOptions options{.beta1 = 0, .clip = 0.5f};
      Optimizer dense_steps(options, w_dense.size()), sparse_steps(options, w_sparse.size());
      for (int step = 0; step < 20; ++step) {
        const Pair rows = random_rows(random, dense.class_count);
        const float loss =
            dense_trainer->gradient(w_dense, rows.dense, rows.labels, g_dense).value();
        const float same =
            sparse_trainer->gradient(w_sparse, rows.sparse, rows.labels, g_sparse).value();
        CHECK(std::abs(loss - same) < 1e-5f);
        CHECK(largest_gap(as_sparse(dense, sparse, g_dense), g_sparse) < 1e-5);
        const std::span<const ElementRange> touched = sparse_trainer->touched();
        for (size_t i = 0; i < g_sparse.size(); ++i)
          if (!is_touched(touched, i)) REQUIRE(g_sparse[i] == 0);
        size_t inside = 0;
        for (const ElementRange& range : touched) inside += range.end - range.begin;
        CHECK(inside < kRows * kRoom * kUnits + g_sparse.size() -
                           static_cast<size_t>(sparse.layout.tensors()[1].offset) + 1);
        dense_steps.step(g_dense, 0.3f, w_dense);
        sparse_steps.step(g_sparse, touched, 0.3f, w_sparse);
        CHECK(largest_gap(as_sparse(dense, sparse, w_dense), w_sparse) < 1e-4);
      }
      CHECK(dense_trainer->touched().empty());
    }
  }
}

TEST_CASE("a step of what is touched is the whole step, to the bit") {
  Random random(test::seed(), 3);
  for (const OptimizerKind kind :
       {OptimizerKind::kSgd, OptimizerKind::kNesterov, OptimizerKind::kAdagrad}) {
    const OptimizerOptions options{.kind = kind, .beta1 = 0, .clip = 2};
    REQUIRE(options.keeps_untouched());
    constexpr size_t kCount = 400;
    Optimizer whole(options, kCount), part(options, kCount);
    std::vector<float> w(kCount), same(kCount), gradient(kCount);
    for (float& value : w) value = random.symmetric();
    same = w;
    for (int step = 0; step < 30; ++step) {
      std::vector<ElementRange> touched;
      std::ranges::fill(gradient, 0.0f);
      for (size_t at = 0; at < kCount;) {
        const size_t begin = at + static_cast<size_t>(random.below(60));
        const size_t end = std::min(begin + 1 + static_cast<size_t>(random.below(20)), kCount);
        if (begin >= end) break;
        touched.push_back({begin, end});
        for (size_t i = begin; i < end; ++i)
          gradient[i] = random.below(5) == 0 ? 0.0f : random.symmetric();
        at = end + 1;
      }
      whole.step(gradient, 0.1f, w);
      part.step(gradient, touched, 0.1f, same);
      REQUIRE(std::ranges::equal(
          w, same, {}, [](float v) { return std::bit_cast<uint32_t>(v); },
          [](float v) { return std::bit_cast<uint32_t>(v); }));
    }
  }
  for (const OptimizerOptions& moves :
       {OptimizerOptions{}, OptimizerOptions{.kind = OptimizerKind::kAdam, .beta1 = 0},
        OptimizerOptions{.kind = OptimizerKind::kRmsprop, .beta1 = 0},
        OptimizerOptions{.beta1 = 0, .weight_decay = 0.1f}})
    CHECK_FALSE(moves.keeps_untouched());
}

TEST_CASE("a layer that gives the answers starts at zero, a hidden one does not") {
  for (const bool hidden : {false, true}) {
    const ModelSpec spec = test::model_of(net(true, hidden));
    CHECK(spec.sparse_entries() == kEntries);
    std::vector<float> parameters(test::parameter_floats(spec));
    init_parameters(spec, 1, parameters);
    const std::span<const float> weight =
        test::tensor_of(std::span<const float>(parameters), spec.layout.tensors()[0]);
    CHECK(test::all_zero(weight) == !hidden);
  }
  CHECK(test::model_of(net(false, false)).sparse_entries() == 0);
}

TEST_CASE("no step of sparse rows allocates") {
  const ModelSpec spec = test::model_of(net(true, true));
  Random random(test::seed(), 5);
  std::vector<float> parameters = test::random_parameters(spec, random),
                     gradient(parameters.size());
  auto trainer = *make_trainer(spec, kRows, "auto");
  Optimizer optimizer({.beta1 = 0}, parameters.size());
  for (int step = 0; step < 10; ++step) {
    const Pair rows = random_rows(random, spec.class_count);
    const uint64_t calls = test::allocation_counts().calls;
    REQUIRE(trainer->gradient(parameters, rows.sparse, rows.labels, gradient).has_value());
    optimizer.step(gradient, trainer->touched(), 0.1f, parameters);
    CHECK(test::allocation_counts().calls == calls);
  }
}

TEST_CASE("places that no reader would give stay inside the weights") {
  const ModelSpec spec = test::model_of(net(true, false));
  std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
  auto trainer = *make_trainer(spec, 1, "reference");
  for (const float place : {-1.0f, 1e30f, -1e30f, NAN, INFINITY, 49.5f, 1e-40f}) {
    const std::vector<float> row = {place, place, 0, 0, 0, 1, 1, 0, 0, 0};
    const std::vector<int32_t> label = {2};
    CHECK(trainer->gradient(parameters, row, label, gradient).has_value());
  }
}

TEST_CASE("parse: where the layer may stand, and how it is trained") {
  const auto refusal = [](const std::string& text) {
    const Result<RunSpec> run = parse_run(text);
    return run ? std::string() : run.error().message();
  };
  const std::string still = "[training]\nmomentum = 0\n";
  CHECK(refusal(net(true, true) + still) == "");
  CHECK(refusal(net(true, true) + "[training]\noptimizer = 'adagrad'\n") == "");
  for (const char* training :
       {"", "[training]\nmomentum = 0.5\n", "[training]\noptimizer = 'adam'\nbeta1 = 0\n",
        "[training]\nmomentum = 0\nweight_decay = 0.1\n"})
    CHECK(refusal(net(true, true) + training).find("sparse rows touch few weights") !=
          std::string::npos);
  CHECK(refusal("[model]\ninput = [50]\nclasses = 6\n"
                "[[layer]]\ntype = 'sparse_dense'\nentries = 50\nunits = 6\n" +
                still)
            .find("put it first, with model.input = [2, N]") != std::string::npos);
  CHECK(refusal("[model]\ninput = [2, 5]\nclasses = 6\n[[layer]]\ntype = 'relu'\n"
                "[[layer]]\ntype = 'sparse_dense'\nentries = 50\nunits = 6\n" +
                still)
            .find("so it has to be the first") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace paceline
