// tau = ceil(sqrt(first rate / rate * loss / first loss) * first tau), or half of what it was.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/freq/freq.h"

using namespace paceline;

namespace {

// tau after each group of five evaluations at one loss and one share of the rate.
std::vector<uint32_t> taus(const char* policy,
                           const std::vector<std::pair<double, double>>& groups) {
  const std::unique_ptr<Freq> freq = make_freq(policy).value();
  std::vector<uint32_t> seen;
  uint64_t publication = 0;
  for (const auto& [loss, rate_share] : groups) {
    for (int i = 0; i < 5; ++i) {
      FleetEvaluation evaluation;
      evaluation.publication = ++publication;
      evaluation.rows = 100;
      evaluation.loss = loss;
      evaluation.rate_share = rate_share;
      freq->observe(evaluation);
    }
    seen.push_back(freq->tau());
  }
  return seen;
}

}  // namespace

TEST_SUITE("freq/adacomm") {
  TEST_CASE("tau follows the root of the loss") {
    CHECK(taus("adacomm:16", {{2, 1}, {1.5, 1}, {0.5, 1}, {0.125, 1}, {0.0001, 1}}) ==
          std::vector<uint32_t>{16, 14, 8, 4, 1});  // ceil(13.86), 8, 4, ceil(0.11)
  }
  TEST_CASE("a loss that does not fall halves tau each time: it never grows") {
    CHECK(taus("adacomm:16", {{2, 1}, {2, 1}, {2, 1}, {3, 1}, {2, 1}, {2, 1}}) ==
          std::vector<uint32_t>{16, 8, 4, 2, 1, 1});
  }
  TEST_CASE("a rate that falls allows more local steps, not more than there were") {
    CHECK(taus("adacomm:16", {{2, 1}, {0.5, 1}, {0.125, 0.5}, {0.125, 0.25}}) ==
          std::vector<uint32_t>{16, 8, 6, 3});  // 16 sqrt(1/8) = 5.66; 16 sqrt(1/4) = 8 >= 6: half
  }
  TEST_CASE("it can be given the largest tau there is") {
    CHECK(taus("adacomm:1024", {{2, 1}, {0.5, 1}}) == std::vector<uint32_t>{1024, 512});
  }
}
