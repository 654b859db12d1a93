// Do the methods still reach what they reached? Whole runs on Fashion-MNIST with label-skewed
// shards, boards of speeds 1:1:2:4 and thin links, by paired seeds: both sides of a comparison have
// the same start, shards and batches.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "tests/gates/fashion_fleet.h"

using namespace paceline;
using test::FashionOptions;
using test::FashionPoint;
using test::FashionRun;

namespace {

constexpr uint64_t kSeeds[] = {1, 2, 3};
constexpr double kTargetAccuracy = 0.84;

bool skipped() {
  if (test::fashion_data_is_there()) return false;
  std::printf("skipped: no data (Debian's dataset-fashion-mnist)\n");
  return true;
}

FashionOptions plain_bsp() {
  FashionOptions options;
  options.pace = "bsp";
  options.freq = "fixed:1";
  options.codec_up = options.codec_down = CodecId::kRaw32;
  return options;
}

FashionRun run(FashionOptions options, uint64_t seed, const char* what) {
  options.seed = seed;
  const FashionRun result = test::run_fashion(options);
  const FashionPoint at = result.reached(kTargetAccuracy);
  std::printf("seed %llu  %-9s  %6llu rounds  final %.4f  %.2f at %6.2f s, %9.3f MB\n",
              static_cast<unsigned long long>(seed), what,
              static_cast<unsigned long long>(result.rounds), result.final_accuracy,
              kTargetAccuracy, at.seconds, static_cast<double>(at.bytes) / 1e6);
  std::fflush(stdout);
  return result;
}

// Points of accuracy that `codec`, both ways, loses against raw32 at equal steps: one paired
// difference for each seed, and their mean.
double mean_loss_points(CodecId codec, const char* name, const std::vector<FashionRun>& exact) {
  FashionOptions options = plain_bsp();
  options.freq = "fixed:4";
  options.link_bits_per_s = 0;  // so that a round takes as long with every codec
  options.codec_up = options.codec_down = codec;
  double mean = 0;
  for (size_t i = 0; i < std::size(kSeeds); ++i) {
    const FashionRun coded = run(options, kSeeds[i], name);
    CHECK(coded.rounds == exact[i].rounds);
    const double loss = 100 * (exact[i].final_accuracy - coded.final_accuracy);
    std::printf("seed %llu  %s loses %+.2f points\n", static_cast<unsigned long long>(kSeeds[i]),
                name, loss);
    mean += loss / static_cast<double>(std::size(kSeeds));
  }
  std::printf("%s loses %+.2f points on average\n", name, mean);
  return mean;
}

}  // namespace

TEST_SUITE("gates/convergence") {
  TEST_CASE("the defaults reach .84 with 25 times fewer bytes and 3 times sooner than plain bsp") {
    if (skipped()) return;
    double bytes_ratio = 0, time_ratio = 0, lost = 0;
    for (const uint64_t seed : kSeeds) {
      const FashionRun plain = run(plain_bsp(), seed, "plain bsp");
      const FashionRun ours = run({}, seed, "defaults");
      const FashionPoint slow = plain.reached(kTargetAccuracy);
      const FashionPoint fast = ours.reached(kTargetAccuracy);
      REQUIRE(slow.seconds > 0);
      REQUIRE(fast.seconds > 0);
      const double bytes = static_cast<double>(slow.bytes) / static_cast<double>(fast.bytes);
      const double time = slow.seconds / fast.seconds;
      std::printf("seed %llu  bytes / %.1f, time / %.2f\n", static_cast<unsigned long long>(seed),
                  bytes, time);
      bytes_ratio += bytes / static_cast<double>(std::size(kSeeds));
      time_ratio += time / static_cast<double>(std::size(kSeeds));
      lost += 100 * (plain.final_accuracy - ours.final_accuracy) /
              static_cast<double>(std::size(kSeeds));
    }
    std::printf("on average bytes / %.1f, time / %.2f, %+.2f points lost at the end\n", bytes_ratio,
                time_ratio, lost);
    CHECK(bytes_ratio >= 25);
    CHECK(time_ratio >= 3);
    CHECK(lost <= 1);
  }

  TEST_CASE("at equal steps q8 loses at most half a point and s1r at most one against raw32") {
    if (skipped()) return;
    FashionOptions options = plain_bsp();
    options.freq = "fixed:4";
    options.link_bits_per_s = 0;
    std::vector<FashionRun> exact;
    for (const uint64_t seed : kSeeds) exact.push_back(run(options, seed, "raw32"));
    CHECK(mean_loss_points(CodecId::kQ8, "q8", exact) <= 0.5);
    CHECK(mean_loss_points(CodecId::kS1r, "s1r", exact) <= 1.0);
  }

  TEST_CASE("at 1 Mbit/s one bit both ways beats eight bits down, and both beat raw32") {
    if (skipped()) return;
    struct Row {
      const char* name;
      CodecId up, down;
      const char* freq;
      double seconds;
    };
    const Row rows[] = {{"raw32 / raw32", CodecId::kRaw32, CodecId::kRaw32, "fixed:64", 300},
                        {"s1r / q8", CodecId::kS1r, CodecId::kQ8, "fixed:16", 60},
                        {"s1r / q8", CodecId::kS1r, CodecId::kQ8, "fixed:64", 60},
                        {"s1r / q4", CodecId::kS1r, CodecId::kQ4, "fixed:16", 60},
                        {"s1r / s1r", CodecId::kS1r, CodecId::kS1r, "fixed:16", 60},
                        {"tk5 / tk5", CodecId::kTk5, CodecId::kTk5, "fixed:16", 60},
                        {"tk1 / tk1", CodecId::kTk1, CodecId::kTk1, "fixed:16", 60}};
    for (const double alpha : {0.5, 0.1}) {
      std::map<std::string, double> sooner;
      for (const Row& row : rows) {
        FashionOptions options;
        options.codec_up = row.up;
        options.codec_down = row.down;
        options.freq = row.freq;
        options.alpha = alpha;
        options.rate = 0.02;
        options.link_bits_per_s = 1e6;
        options.seconds = row.seconds;
        const FashionRun result = test::run_fashion(options);
        std::printf("alpha %.1f  %-14s %-8s", alpha, row.name, row.freq);
        for (const double accuracy : {0.80, 0.84, 0.85}) {
          const FashionPoint at = result.reached(accuracy);
          if (at.seconds < 0)
            std::printf("  %.2f: never            ", accuracy);
          else
            std::printf("  %.2f: %6.1f s %6.2f MB", accuracy, at.seconds,
                        static_cast<double>(at.bytes) / 1e6);
        }
        double best = 0;
        for (const FashionPoint& point : result.curve) best = std::max(best, point.accuracy);
        std::printf("  best %.3f in %.0f s\n", best, row.seconds);
        std::fflush(stdout);
        const FashionPoint at = result.reached(0.80);
        sooner[format_text("%s %s", row.name, row.freq)] = at.seconds < 0 ? 1e9 : at.seconds;
      }
      CHECK(sooner["s1r / s1r fixed:16"] < sooner["s1r / q8 fixed:16"]);
      CHECK(sooner["s1r / q8 fixed:16"] < sooner["raw32 / raw32 fixed:64"]);
    }
  }
}
