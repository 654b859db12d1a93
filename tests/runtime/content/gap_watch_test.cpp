#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/random.h"
#include "runtime/content/content.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

Gap gap_of(double share) { return {.norm = 1, .worst_share = share, .worst_tensor = 0}; }

}  // namespace

TEST_SUITE("content/gap_watch") {
  TEST_CASE("the gap is that of the worst tensor, as computed value by value in double") {
    const ParameterLayout layout = ParameterLayout::make({{"a", TensorClass::kWeight, {30, 40}},
                                                          {"b", TensorClass::kBias, {7}},
                                                          {"c", TensorClass::kWeight, {300, 17}}})
                                       .value();
    Random random(test::seed(), 23);
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<float> master(layout.element_count()), published(master.size());
      double all = 0, worst = 0;
      size_t worst_tensor = 0;
      for (size_t t = 0; t < layout.tensors().size(); ++t) {
        const TensorSpec& tensor = layout.tensors()[t];
        const double size = random.unit() * 100, noise = random.unit() * 0.1;
        double gap = 0, whole = 0;
        for (uint64_t at = tensor.offset; at < tensor.offset + tensor.count; ++at) {
          const auto i = static_cast<size_t>(at);
          master[i] = random.symmetric() * static_cast<float>(size);
          published[i] = master[i] + random.symmetric() * static_cast<float>(noise);
          const double difference =
              static_cast<double>(master[i]) - static_cast<double>(published[i]);
          gap += difference * difference;
          whole += static_cast<double>(master[i]) * static_cast<double>(master[i]);
        }
        all += gap;
        if (std::sqrt(gap / whole) > worst) worst_tensor = t;
        worst = std::max(worst, std::sqrt(gap / whole));
      }
      const Gap measured = measure_gap(layout, master, published);
      CHECK(measured.norm == doctest::Approx(std::sqrt(all)).epsilon(1e-4));
      CHECK(measured.worst_share == doctest::Approx(worst).epsilon(1e-4));
      CHECK(measured.worst_tensor == worst_tensor);
    }
  }

  TEST_CASE("equal models have no gap, also where a tensor is zero") {
    const ParameterLayout layout =
        ParameterLayout::make({{"a", TensorClass::kWeight, {4}}}).value();
    const std::vector<float> zero(layout.element_count());
    CHECK(measure_gap(layout, zero, zero).worst_share == 0);
    std::vector<float> some = zero;
    some[0] = 1;
    CHECK(measure_gap(layout, zero, some).worst_share > 1e9);
  }

  TEST_CASE(
      "over 1 % for ten publications of a codec that keeps back nearly all: closing, to 0.3 %") {
    constexpr double kLosing = 0.98, kKeepsUp = 0.9;
    GapWatch watch;
    for (uint64_t publication = 1; publication <= 100; publication += 5)
      watch.observe(gap_of(publication % 2 == 0 ? 0.0099 : 0.2),
                    publication % 2 == 0 ? kLosing : kKeepsUp, publication);
    CHECK_FALSE(watch.closing());
    watch.observe(gap_of(0.011), kLosing, 101);
    watch.observe(gap_of(0.011), kLosing, 106);
    watch.observe(gap_of(0.009), kLosing, 111);  // it came back by itself
    watch.observe(gap_of(0.011), kLosing, 116);
    watch.observe(gap_of(0.011), kLosing, 121);
    CHECK_FALSE(watch.closing());
    watch.observe(gap_of(0.011), kLosing, 126);
    CHECK(watch.closing());
    watch.observe(gap_of(0.0031), 0, 127);
    CHECK(watch.closing());
    watch.observe(gap_of(0.0029), 0, 128);
    CHECK_FALSE(watch.closing());
    watch.observe(gap_of(0.02), kLosing, 129);
    CHECK_FALSE(watch.closing());
  }
}
