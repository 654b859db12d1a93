#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "runtime/base/random.h"
#include "runtime/content/content.h"
#include "tests/support/seed.h"

using namespace paceline;

namespace {

// So many rounds in which `codec` keeps back `residual` of 1, when the update has `update`.
std::string after(LossEstimate* losses, CodecId codec, int rounds, double residual, double update) {
  std::string reason;
  for (int i = 0; i < rounds; ++i) {
    losses->observe(codec, {update, 1, residual});
    reason = losses->losing(codec);
  }
  return reason;
}

}  // namespace

TEST_SUITE("content/loss_estimate") {
  TEST_CASE(
      "what a codec keeps back is the median of what was measured, but no less than is usual") {
    LossEstimate losses;
    losses.observe(CodecId::kRaw32, {1, 1, 1});  // a lie
    CHECK(losses.lost_share(codec_info(CodecId::kRaw32)) == 0);
    CHECK(losses.lost_share(codec_info(CodecId::kTk1)) == 0.9);
    for (const double residual : {0.7, 0.7, 5.0, 0.7})
      losses.observe(CodecId::kS1r, {1, 1, residual});
    CHECK(losses.lost_share(codec_info(CodecId::kS1r)) == doctest::Approx(0.49));
    // The first changes are a few large values, and say nothing of what follows.
    losses.observe(CodecId::kTk5, {1, 1, 0.1});
    CHECK(losses.lost_share(codec_info(CodecId::kTk5)) == 0.65);
  }

  TEST_CASE("the codecs' own encodings have the shares that their bits allow") {
    // Gaussian rows as updates are: the sum of uniform numbers. One bit keeps back 1 - 2/pi.
    const ParameterLayout layout =
        ParameterLayout::make({{"w", TensorClass::kWeight, {64, 1024}}}).value();
    Random random(test::seed(), 22);
    std::vector<float> update(layout.element_count()), residual(update.size());
    for (float& value : update)
      for (int i = 0; i < 12; ++i) value += random.symmetric();
    EncodedUpdate encoded;
    REQUIRE(encode_update(layout, CodecId::kS1r, {1, 1}, update, residual, &encoded).ok());
    const std::vector<float> zero(update.size());
    LossEstimate losses;
    losses.observe(CodecId::kS1r, {0, measure_gap(layout, update, zero).norm,
                                   measure_gap(layout, residual, zero).norm});
    CHECK(losses.lost_share(codec_info(CodecId::kS1r)) == doctest::Approx(0.363).epsilon(0.02));
  }

  TEST_CASE("a codec is losing when it keeps back nearly everything, or what is unsent grows") {
    LossEstimate hopeless;
    CHECK(after(&hopeless, CodecId::kTk1, 1, 0.99, 1).find("tk1 keeps back 98 %") == 0);

    // Large but steady: sparse codecs live like that.
    LossEstimate steady;
    CHECK(after(&steady, CodecId::kTk1, 100, 0.9, 0.1).empty());

    LossEstimate growing;
    std::string reason;
    int rounds = 0;
    for (double update = 0.5; reason.empty() && rounds < 100; update *= 0.95, ++rounds)
      reason = after(&growing, CodecId::kS1r, 1, 0.6, update);
    CHECK(rounds < 40);
    CHECK(reason.find("s1r leaves ") == 0);

    // A sparse codec's residual builds up to three updates, and stays there.
    LossEstimate settling;
    double residual = 0;
    for (int i = 0; i < 200; ++i) {
      const double coded = std::sqrt(residual * residual + 1);
      residual = 0.95 * coded;
      settling.observe(CodecId::kTk1, {1, coded, residual});
      CHECK(settling.losing(CodecId::kTk1).empty());
    }

    // A part of an update that waits is no backlog, however it grows.
    LossEstimate small;
    for (double update = 100; update > 0.5; update *= 0.95)
      CHECK(after(&small, CodecId::kS1r, 1, 0.6, update).empty());
  }

  TEST_CASE("after a change of codec or tau the trend begins again") {
    LossEstimate losses;
    CHECK(after(&losses, CodecId::kS1r, 15, 0.6, 0.3).empty());
    losses.begin_trend();
    CHECK(after(&losses, CodecId::kS1r, 15, 0.6, 0.1).empty());
    CHECK(after(&losses, CodecId::kS1r, 50, 0.6, 0.1).empty());
  }

  TEST_CASE("norms that can't be are ignored") {
    LossEstimate losses;
    const double infinity = std::numeric_limits<double>::infinity();
    for (const double wrong : {-1.0, infinity, -infinity, std::nan("")}) {
      losses.observe(CodecId::kQ8, {wrong, 1, 1});
      losses.observe(CodecId::kQ8, {1, wrong, 1});
      losses.observe(CodecId::kQ8, {1, 1, wrong});
    }
    losses.observe(CodecId::kQ8, {1, 0, 0});
    CHECK(losses.losing(CodecId::kQ8).empty());
    losses.observe(CodecId::kQ8, {1, 1, 0.01});
    CHECK(losses.lost_share(codec_info(CodecId::kQ8)) == doctest::Approx(1e-4));
  }
}
