// Batch normalisation over a whole fleet.
#include <doctest/doctest.h>

#include <map>

#include "runtime/train/statistics.h"
#include "tests/support/toy_fleet.h"

using namespace paceline;
using test::ToyOptions;

namespace {

constexpr TimeUs kMinute = 60'000'000;

std::unique_ptr<Fleet> started(FleetOptions options) {
  Result<std::unique_ptr<Fleet>> fleet = Fleet::make(std::move(options));
  REQUIRE_MESSAGE(fleet.has_value(), (fleet ? "" : fleet.error().message()));
  return std::move(*fleet);
}

}  // namespace

TEST_SUITE("simulate/statistics") {
  TEST_CASE("after an epoch the fleet knows mean and variance of all its rows") {
    const ToyOptions toy{.batch_norm = true};
    FleetOptions options = test::toy_fleet(toy);
    options.server.freq = "fixed:9";  // 288 rows in batches of 32
    std::unique_ptr<Fleet> fleet = started(std::move(options));
    REQUIRE(fleet->run(kMinute, [&] { return fleet->server().round() == 2; }));
    const ModelSpec& model = fleet->server().options().run.model;
    const std::vector<float> known =
        published_statistics(model.layout, fleet->server().published());
    const size_t width = known.size() / 2;
    std::vector<double> means(width), squares(width);
    double rows = 0;
    for (size_t worker = 0; worker < toy.workers; ++worker) {
      const auto data = test::toy_data(toy, worker);
      std::vector<float> features(data->split.training.size() * width);
      std::vector<int32_t> labels(data->split.training.size());
      data->dataset.gather(data->split.training, features, labels);
      for (size_t i = 0; i < features.size(); ++i) {
        means[i % width] += static_cast<double>(features[i]);
        squares[i % width] += static_cast<double>(features[i]) * static_cast<double>(features[i]);
      }
      rows += static_cast<double>(labels.size());
    }
    for (size_t i = 0; i < width; ++i) {
      const double mean = means[i] / rows;
      CHECK(static_cast<double>(known[i]) == doctest::Approx(mean).epsilon(1e-5));
      CHECK(static_cast<double>(known[width + i]) ==
            doctest::Approx(squares[i] / rows - mean * mean).epsilon(1e-5));
    }
  }

  TEST_CASE("in every pace all hold the same statistics, and the fleet learns") {
    for (const char* pace : {"bsp", "compat", "backup:1", "asp", "ssp:3", "fedbuff"}) {
      const ToyOptions toy{.hidden = 600, .batch_norm = true};
      FleetOptions options = test::toy_fleet(toy);
      options.server.pace = pace;
      options.server.freq = "fixed:2";
      options.server.codec_up = options.server.codec_down = CodecId::kS1r;
      options.workers[3].step_us = 20'000;
      options.faults.reply_loss = 0.05;
      std::unique_ptr<Fleet> fleet = started(std::move(options));
      const double before = test::toy_loss(toy, fleet->server().published());
      std::map<uint64_t, uint32_t> checksums;
      size_t compared = 0;
      REQUIRE(fleet->run(30 * kMinute, [&] {
        checksums[fleet->server().publication()] = fleet->server().checksum();
        for (size_t i = 0; i < fleet->worker_count(); ++i) {
          const WorkerCore& worker = fleet->worker(i);
          if (worker.publication() == 0) continue;
          if (checksums.at(worker.publication()) != worker.published_checksum())
            FAIL("models differ");
          ++compared;
        }
        return fleet->server().publication() > 20;
      }));
      INFO(pace);
      CHECK(compared > 40);
      CHECK(test::toy_loss(toy, fleet->server().published()) < 0.6 * before);
      for (size_t i = 0; i < fleet->worker_count(); ++i)
        CHECK(fleet->worker(i).stats().checksum_faults == 0);
    }
  }
}
