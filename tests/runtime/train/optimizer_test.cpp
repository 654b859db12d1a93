#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "runtime/base/random.h"
#include "runtime/train/trainer.h"
#include "tests/support/seed.h"

namespace paceline {

TEST_SUITE_BEGIN("train/optimizer");

TEST_CASE("step: m = beta m + g, w = w - rate m, to the bit, for every length") {
  Random random(test::seed(), 1);
  for (size_t count = 0; count < 70; ++count) {
    Sgd sgd(count, 0.9f);
    std::vector<float> w(count), m(count, 0.0f), expected(count), g(count);
    for (size_t i = 0; i < count; ++i) expected[i] = w[i] = random.symmetric();
    for (int step = 0; step < 4; ++step) {
      for (float& value : g) value = random.symmetric();
      sgd.step(g, 0.05f, w);
      for (size_t i = 0; i < count; ++i) {
        volatile float product = 0.9f * m[i];
        m[i] = product + g[i];
        product = 0.05f * m[i];
        expected[i] -= product;
      }
      REQUIRE(w == expected);
    }
  }
}

TEST_CASE("step: momentum without gradient ends at +0, never subnormal") {
  Sgd sgd(3, 0.5f);
  std::vector<float> w(3, 1.0f), g = {1.0f, -1.0f, 0.0f};
  sgd.step(g, 0.1f, w);
  g.assign(3, 0.0f);
  for (int step = 0; step < 200; ++step) {
    sgd.step(g, 0.1f, w);
    for (float m : sgd.momentum()) REQUIRE((m == 0.0f || std::abs(m) >= 0x1p-90f));
  }
  for (float m : sgd.momentum()) CHECK(!std::signbit(m));
}

TEST_CASE("decay: multiplies by beta to the number of missed steps; drop: forgets") {
  Sgd sgd(2, 0.5f);
  sgd.momentum()[0] = 8.0f;
  sgd.momentum()[1] = -4.0f;
  sgd.decay(3);
  CHECK(sgd.momentum()[0] == 1.0f);
  CHECK(sgd.momentum()[1] == -0.5f);
  sgd.decay(UINT32_MAX);
  CHECK(sgd.momentum()[0] == 0.0f);
  sgd.momentum()[0] = 1.0f;
  sgd.drop();
  CHECK(sgd.momentum()[0] == 0.0f);
}

TEST_SUITE_END();

}  // namespace paceline
