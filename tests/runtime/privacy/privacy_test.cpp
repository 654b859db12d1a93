#include "runtime/privacy/privacy.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace paceline;

namespace {

Result<std::optional<PrivacySpec>> parsed(const std::string& text) {
  return parse_privacy(Config::parse(text, "run.toml").value());
}

}  // namespace

TEST_SUITE("privacy/privacy") {
  // By another program, in 40 digits with mpmath 1.3: the least over all orders by golden section,
  // and what the exact Gaussian has (Balle and Wang, ICML 2018, theorem 8), which no sound figure
  // may undercut.
  TEST_CASE("epsilon is the least over all orders to 0.1 %, and never below what is exact") {
    const struct {
      double noise, delta;
      uint64_t updates;
      double least, exact;
    } cases[] = {
        {0.8, 1e-5, 1, 6.122631053, 5.679586855},    {0.8, 1e-5, 200, 238.643264, 230.7481002},
        {1.1, 1e-5, 60, 56.9091632, 54.04581808},    {4, 1e-6, 1000, 71.11479383, 68.04757806},
        {20, 1e-5, 100, 2.165715545, 1.993091404},   {0.05, 1e-5, 10'000, 2009590.018, 2008528.783},
        {100, 1e-5, 1, 0.03082093483, 0.02721941981}};
    for (const auto& one : cases) {
      const PrivacySpec privacy{.clip = 1, .noise = one.noise, .delta = one.delta};
      const double epsilon = spent_epsilon(privacy, one.updates);
      CAPTURE(one.noise);
      CHECK(epsilon >= one.least * (1 - 1e-9));
      CHECK(epsilon <= one.least * 1.001);
      CHECK(epsilon > one.exact);
    }
  }

  TEST_CASE("nothing sent is nothing spent, and each update spends more") {
    const PrivacySpec privacy{.clip = 1, .noise = 3};
    CHECK(spent_epsilon(privacy, 0) == 0);
    for (uint64_t updates = 1; updates < 1'000'000; updates *= 3)
      CHECK(spent_epsilon(privacy, updates + 1) > spent_epsilon(privacy, updates));
    CHECK(std::isfinite(spent_epsilon(privacy, UINT64_MAX)));
  }

  TEST_CASE("without the table there is none; with it both lengths have to be said") {
    CHECK_FALSE(parsed("[model]\nx = 1\n")->has_value());
    const Result<std::optional<PrivacySpec>> both = parsed("[privacy]\nclip = 2\nnoise = 0.5\n");
    REQUIRE(both);
    CHECK((*both)->clip == 2);
    CHECK((*both)->delta == 1e-5);
    CHECK((*both)->epsilon_max == 0);
    for (const char* text :
         {"[privacy]\n", "[privacy]\nclip = 1\n", "[privacy]\nnoise = 1\n",
          "[privacy]\nclip = 1\nnoise = 0\n", "[privacy]\nclip = -1\nnoise = 1\n",
          "[privacy]\nclip = 1\nnoise = 1\nnoize = 1\n"}) {
      const Result<std::optional<PrivacySpec>> refused = parsed(text);
      REQUIRE_MESSAGE(!refused, text);
      CHECK(refused.error().message().find("run.toml:") == 0);
    }
  }
}
