// A step never allocates, and the plan is all there is.
#include "tests/support/allocation_counter.h"

#include <doctest/doctest.h>

#include "tests/runtime/train/nets.h"
#include "tests/support/seed.h"

namespace paceline {

TEST_SUITE_BEGIN("train/allocation");

TEST_CASE("gradient, evaluate and step: no allocation after make_trainer") {
  for (std::string_view toml :
       {test::kSmallMlp, test::kSmallCnn, test::kSmallCells, test::kSmallGraph}) {
    const ModelSpec spec = test::model_of(toml);
    Random random(test::seed(), 1);
    std::vector<float> parameters(test::parameter_floats(spec)), gradient(parameters.size());
    init_parameters(spec, 1, parameters);
    const test::Batch batch = test::random_batch(spec, 33, random);
    for (const std::string& backend : backends()) {
      auto trainer = make_trainer(spec, 33, backend);
      Optimizer sgd({}, parameters.size());
      const uint64_t calls = test::allocation_counts().calls;
      for (size_t rows = 1; rows <= 33; ++rows) {
        const std::span<const float> features(batch.features.data(), rows * test::row_floats(spec));
        const std::span<const int32_t> labels(batch.labels.data(), rows);
        EvaluationCounts counts;
        REQUIRE((*trainer)->gradient(parameters, features, labels, gradient).has_value());
        REQUIRE((*trainer)->evaluate(parameters, features, labels, &counts).ok());
        sgd.step(gradient, 0.01f, parameters);
      }
      CHECK(test::allocation_counts().calls == calls);
    }
  }
}

TEST_CASE("planned_bytes: bounds the memory of a trainer, but for its description") {
  constexpr uint64_t kDescriptionBytes = 12288;
  for (std::string_view toml :
       {test::kSmallMlp, test::kSmallCnn, test::kSmallCells, test::kSmallGraph}) {
    const ModelSpec spec = test::model_of(toml);
    for (const std::string& backend : backends()) {
      size_t before_batch = 0;
      for (const size_t batch : {1u, 8u, 64u}) {
        const uint64_t before = test::allocation_counts().live_bytes;
        auto trainer = make_trainer(spec, batch, backend);
        const uint64_t used = test::allocation_counts().live_bytes - before;
        CHECK(used >= (*trainer)->planned_bytes());
        CHECK(used <= (*trainer)->planned_bytes() + kDescriptionBytes);
        CHECK((*trainer)->planned_bytes() > before_batch);
        before_batch = (*trainer)->planned_bytes();
      }
    }
  }
}

TEST_SUITE_END();

}  // namespace paceline
