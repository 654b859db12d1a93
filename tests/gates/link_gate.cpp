// Does the choice by the link find what a person would have to try out? The demo's fleet on links
// of several rates, with every fixed pair of codecs that is anywhere near the best, and with auto.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>

#include "tests/gates/fashion_fleet.h"

using namespace paceline;
using test::FashionOptions;

namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3};
constexpr double kTargetAccuracy = 0.84;

struct Link {
  double bits_per_s;  // 0: no limit
  double seconds;     // planned: enough for the target with each pair
};
constexpr Link kLinks[] = {{1e5, 400}, {1e6, 60}, {1e7, 20}, {1e8, 15}, {0, 15}};

// Mean seconds to the target.
double mean_seconds(const Link& link, FashionOptions options, const char* what) {
  double mean = 0;
  for (const uint64_t seed : kSeeds) {
    options.link_bits_per_s = link.bits_per_s;
    options.seconds = link.seconds;
    options.seed = seed;
    const test::FashionPoint at = test::run_fashion(options).reached(kTargetAccuracy);
    REQUIRE(at.seconds > 0);
    std::printf("%8.4g Mbit/s  %-5s seed %llu  %6.2f s %8.2f MB\n", link.bits_per_s / 1e6, what,
                static_cast<unsigned long long>(seed), at.seconds,
                static_cast<double>(at.bytes) / 1e6);
    std::fflush(stdout);
    mean += at.seconds / static_cast<double>(std::size(kSeeds));
  }
  return mean;
}

}  // namespace

TEST_SUITE("gates/link") {
  TEST_CASE("auto reaches .84 within 10 % of the time of the best fixed codec, on every link") {
    if (!test::fashion_data_is_there()) {
      std::printf("skipped: no data (Debian's dataset-fashion-mnist)\n");
      return;
    }
    for (const Link& link : kLinks) {
      double best = 1e9;
      for (const CodecId codec : {CodecId::kS1r, CodecId::kTk5, CodecId::kTk1}) {
        FashionOptions options;
        options.codec_up = options.codec_down = codec;
        best = std::min(best, mean_seconds(link, options, codec_info(codec).name));
      }
      FashionOptions options;
      options.codec_auto = true;
      const double chosen = mean_seconds(link, options, "auto");
      std::printf("%8.4g Mbit/s  auto %.2f s, best fixed %.2f s\n\n", link.bits_per_s / 1e6, chosen,
                  best);
      CAPTURE(link.bits_per_s);
      CHECK(chosen <= 1.1 * best);
    }
  }
}
