// An exchange after every step until the learning rate falls for the first time.
#include <doctest/doctest.h>

#include "runtime/freq/freq.h"

using namespace paceline;

TEST_SUITE("freq/post_local") {
  TEST_CASE("local steps begin with the first fall of the rate, and stay") {
    const std::unique_ptr<Freq> freq = make_freq("post_local:8").value();
    FleetEvaluation evaluation;
    evaluation.loss = 1;
    for (int i = 0; i < 50; ++i) {
      freq->observe(evaluation);
      CHECK(freq->tau() == 1);
    }
    evaluation.rate_share = 0.98;
    freq->observe(evaluation);
    CHECK(freq->tau() == 8);
    evaluation.rate_share = 1;
    freq->observe(evaluation);
    CHECK(freq->tau() == 8);
  }
}
