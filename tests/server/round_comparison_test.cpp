// Agreement of updates against plain arithmetic on the vectors themselves.
#include <doctest/doctest.h>

#include <cmath>

#include "runtime/base/random.h"
#include "server/round_comparison.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

using Flat = std::vector<float>;

ParameterLayout layout_of(uint32_t elements) {
  return ParameterLayout::make({{.name = "weight", .shape = {elements}}}).value();
}

double dot(const Flat& a, const Flat& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

// A common part of the given share in each, the rest its own.
std::vector<Flat> updates(Random& random, size_t count, size_t elements, float common_share) {
  const auto draw = [&] {
    Flat values(elements);
    for (float& value : values) {
      value = 0;
      for (int i = 0; i < 6; ++i) value += random.symmetric();
    }
    return values;
  };
  const Flat common = draw();
  std::vector<Flat> result;
  for (size_t i = 0; i < count; ++i) {
    Flat own = draw();
    for (size_t j = 0; j < elements; ++j)
      own[j] = common_share * common[j] + (1 - common_share) * own[j];
    result.push_back(std::move(own));
  }
  return result;
}

std::vector<Bytes> encoded(const ParameterLayout& layout, CodecId codec, const Flat& update) {
  Flat residual(update.size());
  EncodedUpdate out;
  REQUIRE(encode_update(layout, codec, {5, 1}, update, residual, &out).ok());
  return out.chunks;
}

RoundFacts compare(RoundComparison& comparison, const ParameterLayout& layout, CodecId codec,
                   const std::vector<Flat>& round, const std::vector<double>& weights) {
  Flat sum(round[0].size());
  double divisor = 0;
  for (size_t i = 0; i < round.size(); ++i) {
    comparison.add(static_cast<uint32_t>(i), weights[i], encoded(layout, codec, round[i]));
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<float>(weights[i]) * round[i][j];
    divisor += weights[i];
  }
  if (codec != CodecId::kRaw32) {
    // What the server sums is what the payloads say.
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (size_t i = 0; i < round.size(); ++i) {
      const std::vector<Bytes> chunks = encoded(layout, codec, round[i]);
      Flat decoded(sum.size());
      for (uint32_t c = 0; c < chunks.size(); ++c)
        add_payload(layout, verify_payload(layout, c, chunks[c]).value(), 5, decoded);
      for (size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<float>(weights[i]) * decoded[j];
    }
  }
  return comparison.finish(sum, static_cast<float>(divisor));
}

}  // namespace

TEST_SUITE("server/round_comparison") {
  TEST_CASE("cross, self, spread and turn are those of the vectors") {
    const ParameterLayout layout = layout_of(1024);
    for (uint64_t run = 0; run < 20; ++run) {
      Random random(test::seed(), run);
      RoundComparison comparison(layout, 5);
      const size_t count = 2 + static_cast<size_t>(random.below(5));
      std::vector<double> weights;
      for (size_t i = 0; i < count; ++i) weights.push_back(0.25 * static_cast<double>(1 + i % 4));
      const auto first = updates(random, count, 1024, 0.5f);
      const auto second = updates(random, count, 1024, static_cast<float>(random.unit()));
      CHECK(compare(comparison, layout, CodecId::kRaw32, first, weights).self == 0);
      const RoundFacts facts = compare(comparison, layout, CodecId::kRaw32, second, weights);

      double pulled = 0, possible = 0, self = 0, self_possible = 0, spread = 0, total = 0;
      Flat mean(1024), mean_before(1024);
      for (size_t i = 0; i < count; ++i) total += weights[i];
      for (size_t i = 0; i < count; ++i)
        for (size_t j = 0; j < mean.size(); ++j) {
          mean[j] += static_cast<float>(weights[i] / total) * second[i][j];
          mean_before[j] += static_cast<float>(weights[i] / total) * first[i][j];
        }
      for (size_t i = 0; i < count; ++i) {
        for (size_t j = 0; j < count; ++j) {
          if (i == j) continue;
          pulled += weights[i] * weights[j] * dot(second[i], second[j]);
          possible += weights[i] * weights[j] *
                      std::sqrt(dot(second[i], second[i]) * dot(second[j], second[j]));
        }
        self += weights[i] * weights[i] * dot(second[i], first[i]);
        self_possible += weights[i] * weights[i] *
                         std::sqrt(dot(second[i], second[i]) * dot(first[i], first[i]));
        Flat off = second[i];
        for (size_t j = 0; j < off.size(); ++j) off[j] -= mean[j];
        spread += weights[i] / total * dot(off, off);
      }
      Flat turn = mean;
      for (size_t j = 0; j < turn.size(); ++j) turn[j] -= mean_before[j];
      CHECK(facts.workers == count);
      CHECK(facts.cross == doctest::Approx(pulled / possible).epsilon(1e-4));
      CHECK(facts.self == doctest::Approx(std::max(self / self_possible, 0.0)).epsilon(1e-4));
      CHECK(facts.spread == doctest::Approx(std::sqrt(spread)).epsilon(1e-4));
      CHECK(facts.mean_norm == doctest::Approx(std::sqrt(dot(mean, mean))).epsilon(1e-4));
      CHECK(facts.turn == doctest::Approx(std::sqrt(dot(turn, turn))).epsilon(1e-4));
    }
  }

  TEST_CASE("signs make agreement look smaller; what it was before them is found again") {
    const ParameterLayout layout = layout_of(65'536);
    for (const CodecId codec : {CodecId::kS1, CodecId::kS1r}) {
      for (const float share : {0.3f, 0.5f, 0.7f}) {
        Random random(test::seed(), static_cast<uint64_t>(100 * share));
        const auto round = updates(random, 3, 65'536, share);
        const std::vector<double> weights(3, 1.0);
        RoundComparison plain(layout, 5), coded(layout, 5);
        const double exact = compare(plain, layout, CodecId::kRaw32, round, weights).cross;
        const double found = compare(coded, layout, codec, round, weights).cross;
        CHECK(std::fabs(found - exact) < 0.03);
      }
    }
    for (double x = -1; x <= 1; x += 0.01)
      CHECK(std::fabs(agreement_before_signs(x) - std::sin(1.5707963267948966 * x)) < 4e-6);
  }

  TEST_CASE("a round of nobody, or of updates that are zero, says nothing") {
    const ParameterLayout layout = layout_of(256);
    RoundComparison comparison(layout, 5);
    CHECK(comparison.finish(Flat(256), 1).workers == 0);
    const std::vector<Flat> zeros(3, Flat(256));
    const RoundFacts facts = compare(comparison, layout, CodecId::kRaw32, zeros, {1.0, 1.0, 1.0});
    CHECK(facts.cross == 0);
    CHECK(facts.mean_norm == 0);
  }
}
