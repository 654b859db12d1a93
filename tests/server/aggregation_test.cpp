// Rules against the same rules in plain arithmetic, coordinate by coordinate.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/base/random.h"
#include "server/aggregation.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

using Flat = std::vector<float>;

// A round of `workers` updates as the server holds them.
struct Round {
  ParameterLayout layout;
  std::vector<EncodedUpdate> encoded;
  std::vector<WeightedPayload> payloads;
  std::vector<Flat> values;  // as the payloads say them
  std::vector<double> weights;

  Round(Random& random, size_t workers, uint32_t elements, CodecId codec)
      : layout(ParameterLayout::make({{.name = "weight", .shape = {elements}}}).value()),
        encoded(workers) {
    for (size_t worker = 0; worker < workers; ++worker) {
      Flat update(layout.element_count()), residual(update.size());
      const float scale = random.below(4) == 0 ? -30.0f : 1.0f;  // some are far away
      for (uint32_t i = 0; i < elements; ++i)
        update[i] = random.below(8) == 0 ? 0.0f : scale * random.symmetric();
      REQUIRE(encode_update(layout, codec, {5, 1}, update, residual, &encoded[worker]).ok());
      weights.push_back(
          static_cast<double>(round_weight(1.0 / static_cast<double>(1 + random.below(4)))));
    }
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
      for (size_t worker = 0; worker < workers; ++worker)
        payloads.push_back({verify_payload(layout, chunk, encoded[worker].chunks[chunk]).value(),
                            static_cast<float>(weights[worker])});
    for (size_t worker = 0; worker < workers; ++worker) {
      Flat flat(layout.element_count());
      for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
        add_payload(layout, payloads[chunk * workers + worker].payload, 5, flat);
      values.push_back(std::move(flat));
    }
  }

  std::vector<double> by(const char* rule, std::vector<size_t>* left_out = nullptr) const {
    Aggregator aggregator(parse_aggregation(rule).value());
    Flat sum(layout.element_count(), 7.0f);
    const float divisor = aggregator.aggregate(layout, payloads, values.size(), 5, sum);
    if (left_out != nullptr)
      left_out->assign(aggregator.left_out().begin(), aggregator.left_out().end());
    std::vector<double> result;
    for (const float value : sum)
      result.push_back(static_cast<double>(value) / static_cast<double>(divisor));
    return result;
  }
  double distance(size_t a, size_t b) const {
    double sum = 0;
    for (size_t i = 0; i < values[a].size(); ++i)
      sum += std::pow(static_cast<double>(values[a][i]) - static_cast<double>(values[b][i]), 2);
    return sum;
  }
};

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-5 * (1 + std::abs(b[i]))) return false;
  return a.size() == b.size();
}

std::vector<double> trimmed(const Round& round, size_t cut) {
  std::vector<double> result;
  for (size_t i = 0; i < round.values[0].size(); ++i) {
    std::vector<double> column;
    for (const Flat& flat : round.values) column.push_back(static_cast<double>(flat[i]));
    std::ranges::sort(column);
    double sum = 0;
    for (size_t rank = cut; rank < column.size() - cut; ++rank) sum += column[rank];
    result.push_back(sum / static_cast<double>(column.size() - 2 * cut));
  }
  return result;
}

std::vector<double> mean_of(const Round& round, const std::vector<size_t>& places) {
  std::vector<double> result(round.values[0].size());
  double weights = 0;
  for (const size_t place : places) {
    weights += round.weights[place];
    for (size_t i = 0; i < result.size(); ++i)
      result[i] += round.weights[place] * static_cast<double>(round.values[place][i]);
  }
  for (double& value : result) value /= weights;
  return result;
}

// The places that Krum's scores, each by brute force, leave out.
std::vector<size_t> left_out_by_krum(const Round& round, size_t faulty) {
  const size_t n = round.values.size();
  std::vector<std::pair<double, size_t>> scores;
  for (size_t i = 0; i < n; ++i) {
    std::vector<double> others;
    for (size_t j = 0; j < n; ++j)
      if (j != i) others.push_back(round.distance(i, j));
    std::ranges::sort(others);
    const double score = std::accumulate(
        others.begin(), others.begin() + static_cast<std::ptrdiff_t>(n - faulty - 2), 0.0);
    scores.emplace_back(score, i);
  }
  std::ranges::sort(scores);
  std::vector<size_t> places;
  for (size_t rank = n - faulty; rank < n; ++rank) places.push_back(scores[rank].second);
  return places;
}

std::vector<double> clipped(const Round& round) {
  std::vector<double> centre(round.values[0].size());
  const double weights = std::accumulate(round.weights.begin(), round.weights.end(), 0.0);
  for (int pass = 0; pass < 3; ++pass) {
    std::vector<double> lengths;
    for (const Flat& flat : round.values) {
      double sum = 0;
      for (size_t i = 0; i < centre.size(); ++i)
        sum += std::pow(static_cast<double>(flat[i]) - centre[i], 2);
      lengths.push_back(std::sqrt(sum));
    }
    std::vector<double> sorted = lengths;
    std::ranges::sort(sorted);
    const double radius = sorted[(sorted.size() - 1) / 2];
    const std::vector<double> before = centre;
    for (size_t worker = 0; worker < lengths.size(); ++worker)
      for (size_t i = 0; i < centre.size(); ++i)
        centre[i] += round.weights[worker] / weights *
                     (lengths[worker] > radius ? radius / lengths[worker] : 1) *
                     (static_cast<double>(round.values[worker][i]) - before[i]);
  }
  return centre;
}

}  // namespace

TEST_SUITE("server/aggregation") {
  TEST_CASE("every rule is its definition, for any number of workers and any codec that it takes") {
    Random random(test::seed(), 0);
    for (int trial = 0; trial < 60; ++trial) {
      const size_t workers = static_cast<size_t>(1 + random.below(12));
      const CodecId codecs[] = {CodecId::kRaw32, CodecId::kQ8, CodecId::kBf16, CodecId::kS1r};
      const CodecId codec = codecs[random.below(4)];
      const uint32_t elements =
          trial == 0 ? kChunkElementsMax + 900 : static_cast<uint32_t>(1 + random.below(6000));
      const Round round(random, workers, elements, codec);
      CAPTURE(workers);
      CAPTURE(codec_info(codec).name);
      CAPTURE(elements);
      const size_t most = (workers - 1) / 2;
      std::vector<size_t> all(workers);
      std::iota(all.begin(), all.end(), size_t{0});
      CHECK(same(round.by("mean"), mean_of(round, all)));
      CHECK(same(round.by("median"), trimmed(round, most)));
      CHECK(same(round.by("trimmed:2"), trimmed(round, std::min<size_t>(2, most))));
      CHECK(same(round.by("clip"), clipped(round)));

      const size_t faulty = workers < 3 ? 0 : std::min<size_t>(2, (workers - 3) / 2);
      std::vector<size_t> out;
      const std::vector<double> nearest = round.by("krum:2", &out);
      std::ranges::sort(out);
      std::vector<size_t> wanted =
          faulty > 0 ? left_out_by_krum(round, faulty) : std::vector<size_t>{};
      std::ranges::sort(wanted);
      CHECK(out == wanted);
      std::vector<size_t> kept;
      std::ranges::set_difference(all, out, std::back_inserter(kept));
      CHECK(same(nearest, mean_of(round, kept)));
    }
  }

  TEST_CASE("a rule's name is one of five, with a number where it takes one") {
    CHECK(parse_aggregation("mean")->rule == AggregationRule::kMean);
    CHECK(parse_aggregation("krum")->faulty == 1);
    CHECK(parse_aggregation("trimmed:3")->faulty == 3);
    for (const char* wrong : {"", "mode", "median:2", "krum:", "krum:0", "krum:-1", "krum:2x",
                              "trimmed:99999", "clip:1"}) {
      CAPTURE(wrong);
      const Result<AggregationChoice> choice = parse_aggregation(wrong);
      REQUIRE_FALSE(choice);
      CHECK(choice.error().message().find("take mean, median, trimmed:1") != std::string::npos);
    }
  }
}
