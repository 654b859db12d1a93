#include <doctest/doctest.h>

#include <string>

#include "runtime/quant/codec.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr uint64_t kSeed = 0xC105E;

// Updates of a few workers with any codecs, keys and weights.
struct Round {
  std::vector<EncodedUpdate> updates;
  std::vector<WeightedPayload> payloads;  // chunk by chunk
  size_t workers = 0;
  float divisor = 0;
};

Round make_round(const ParameterLayout& layout, Random& random) {
  Round round;
  round.workers = 1 + static_cast<size_t>(random.below(9));
  std::vector<float> weights;
  for (size_t w = 0; w < round.workers; ++w) {
    const RotationKey rotation{kSeed, 100 - random.below(3)};
    std::vector<float> residual(layout.element_count());
    EncodedUpdate encoded;
    REQUIRE(encode_update(layout, codecs()[static_cast<size_t>(random.below(codecs().size()))].id,
                          rotation, sample_update(layout, seed(), random.next()), residual,
                          &encoded)
                .ok());
    round.updates.push_back(std::move(encoded));
    weights.push_back(round_weight(random.unit()));
    round.divisor += weights.back();
  }
  for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
    for (size_t w = 0; w < round.workers; ++w)
      round.payloads.push_back(
          {verify_payload(layout, chunk, round.updates[w].chunks[chunk]).value(), weights[w]});
  return round;
}

struct Models {
  std::vector<float> master;
  std::vector<float> published;
};

Models make_models(const ParameterLayout& layout, Random& random) {
  Models models{sample_update(layout, seed(), random.next()),
                sample_update(layout, seed(), random.next())};
  flush_small(models.master);
  flush_small(models.published);
  return models;
}

TEST_CASE("close_and_publish: the bytes of the sum, the mean and the delta taken one by one") {
  for (uint64_t repeat = 0; repeat < 24; ++repeat) {
    Random random(seed(), 100 + repeat);
    const ParameterLayout layout = repeat % 4 == 0 ? large_layout() : small_layout();
    const Round round = make_round(layout, random);
    const Models before = make_models(layout, random);
    const float keep = repeat % 2 == 0 ? 1.0f : 0.999f;
    const RotationKey down{downlink_seed(kSeed), repeat};
    for (const CodecInfo& info : codecs()) {
      Models want = before;
      std::vector<float> sum(layout.element_count());
      for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
        sum_payloads(layout, chunk,
                     std::span(round.payloads).subspan(chunk * round.workers, round.workers), kSeed,
                     sum);
      apply_mean(sum, round.divisor, keep, want.master);
      EncodedUpdate want_out;
      REQUIRE(encode_delta(layout, info.id, down, want.master, want.published, &want_out).ok());
      on_every_kernel_set([&](const KernelSet& set) {
        CAPTURE(std::string(set.name));
        CAPTURE(std::string(info.name));
        std::vector<float> master = before.master;
        std::vector<float> next(layout.element_count(), 5.0f);
        EncodedUpdate out;
        REQUIRE(close_and_publish(layout, {round.payloads, kSeed, round.divisor, keep}, info.id,
                                  down, master, before.published, next, &out)
                    .ok());
        CHECK(same_bytes(master, want.master));
        CHECK(same_bytes(next, want.published));
        CHECK(out.chunks == want_out.chunks);
        CHECK(out.checksum == want_out.checksum);
      });
    }
  }
}

TEST_CASE("close_and_publish: a value out of range in any block is refused") {
  const ParameterLayout layout = small_layout();
  Random random(seed(), 1);
  const Round round = make_round(layout, random);
  const Models before = make_models(layout, random);
  for (const CodecInfo& info : codecs())
    for (const BlockRun& run : layout.runs()) {
      std::vector<float> master = before.master;
      const auto i = static_cast<size_t>(random.below(run.element_count));
      master[size_t{run.first_block} * kBlockElements + i] = 0x1p119f;
      std::vector<float> next(layout.element_count());
      EncodedUpdate out;
      CHECK(close_and_publish(layout, {round.payloads, kSeed, round.divisor, 1}, info.id, {1, 2},
                              master, before.published, next, &out)
                .code() == Code::kInvalidArgument);
    }
}

}  // namespace
}  // namespace paceline::test
