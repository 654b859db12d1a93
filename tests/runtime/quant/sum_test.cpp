#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "runtime/quant/codec.h"
#include "tests/runtime/quant/reference.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr uint64_t kSeed = 0x5EED;

struct Fleet {
  ParameterLayout layout;
  std::vector<EncodedUpdate> updates;
  std::vector<RotationKey> rotations;
  std::vector<float> weights;

  std::vector<WeightedPayload> payloads(uint32_t chunk) const {
    std::vector<WeightedPayload> all;
    for (size_t w = 0; w < updates.size(); ++w)
      all.push_back({verify_payload(layout, chunk, updates[w].chunks[chunk]).value(), weights[w]});
    return all;
  }
};

// Worker w uses codec w of `choice`, round and round, and one of three keys.
Fleet make_fleet(ParameterLayout layout, std::vector<CodecId> choice, size_t workers) {
  Fleet fleet{std::move(layout), {}, {}, {}};
  Random random(seed(), 7);
  for (size_t w = 0; w < workers; ++w) {
    const RotationKey rotation{kSeed, 100 - random.below(3)};
    const std::vector<float> update = sample_update(fleet.layout, seed(), 100 + w);
    std::vector<float> residual(fleet.layout.element_count());
    EncodedUpdate encoded;
    REQUIRE(
        encode_update(fleet.layout, choice[w % choice.size()], rotation, update, residual, &encoded)
            .ok());
    fleet.updates.push_back(std::move(encoded));
    fleet.rotations.push_back(rotation);
    fleet.weights.push_back(round_weight(random.unit()));
  }
  return fleet;
}

// The rule of the sum, block by block, without any of the product's code.
std::vector<float> reference_sum(const Fleet& fleet) {
  std::vector<float> sum(fleet.layout.element_count());
  for (uint32_t chunk = 0; chunk < fleet.layout.chunk_count(); ++chunk) {
    const ChunkRange range = fleet.layout.chunk(chunk);
    std::vector<std::vector<ReferenceBlock>> blocks;
    for (const EncodedUpdate& update : fleet.updates)
      blocks.push_back(reference_blocks(fleet.layout, chunk, update.chunks[chunk]));
    for (uint32_t b = 0; b < range.block_count; ++b) {
      float* to = sum.data() + size_t{range.first_block + b} * 256;
      std::map<uint64_t, std::vector<float>> rotated;
      for (size_t w = 0; w < blocks.size(); ++w) {
        const ReferenceBlock& block = blocks[w][b];
        const float weight = fleet.weights[w] * block.scale;
        float* acc = to;
        if (block.rotated) {
          std::vector<float>& sums = rotated[fleet.rotations[w].key];
          sums.resize(256);
          acc = sums.data();
        }
        for (size_t i = 0; i < 256; ++i) acc[i] += weight * block.codes[i];
      }
      for (auto& [key, acc] : rotated) {
        reference_unrotate(kSeed, key, range.first_block + b, acc.data());
        for (size_t i = 0; i < 256; ++i) to[i] += acc[i];
      }
    }
  }
  return sum;
}

std::vector<float> sum_all(const Fleet& fleet) {
  std::vector<float> sum(fleet.layout.element_count(), NAN);
  for (uint32_t chunk = 0; chunk < fleet.layout.chunk_count(); ++chunk)
    sum_payloads(fleet.layout, chunk, fleet.payloads(chunk), kSeed, sum);
  return sum;
}

TEST_CASE("sum: equal to the plain rule for each codec, and for mixed codecs and keys") {
  std::vector<std::vector<CodecId>> choices;
  std::vector<CodecId> mixed;
  for (const CodecInfo& info : codecs()) {
    choices.push_back({info.id});
    mixed.push_back(info.id);
  }
  choices.push_back(mixed);
  for (const std::vector<CodecId>& choice : choices) {
    const Fleet fleet = make_fleet(small_layout(), choice, 11);
    const std::vector<float> want = reference_sum(fleet);
    on_every_kernel_set([&](const KernelSet& set) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codec_info(choice[0]).name));
      CHECK(same_bytes(sum_all(fleet), want));
    });
  }
}

TEST_CASE("sum: more workers than a group of terms holds, over two chunks") {
  const Fleet fleet = make_fleet(large_layout(), {CodecId::kQ8, CodecId::kS1r}, 5);
  CHECK(same_bytes(sum_all(fleet), reference_sum(fleet)));
  const Fleet mixed = make_fleet(
      large_layout(),
      {CodecId::kTk5, CodecId::kQ4r, CodecId::kS1r, CodecId::kTk1, CodecId::kQ8, CodecId::kQ4}, 9);
  CHECK(same_bytes(sum_all(mixed), reference_sum(mixed)));
  const Fleet crowd = make_fleet(small_layout(), {CodecId::kS1r, CodecId::kS1r, CodecId::kQ8}, 150);
  CHECK(same_bytes(sum_all(crowd), reference_sum(crowd)));
}

TEST_CASE("sum: of nobody it is +0") {
  const ParameterLayout layout = small_layout();
  std::vector<float> sum(layout.element_count(), 5.0f);
  sum_payloads(layout, 0, {}, kSeed, sum);
  CHECK(same_bytes(sum, std::vector<float>(layout.element_count())));
}

TEST_CASE("sum: the rotated sum is the sum of the decoded payloads, to rounding") {
  const Fleet fleet = make_fleet(small_layout(), {CodecId::kS1r}, 8);
  const std::vector<float> sum = sum_all(fleet);
  std::vector<double> plain(sum.size());
  std::vector<double> bound(sum.size());
  for (size_t w = 0; w < fleet.updates.size(); ++w) {
    const std::vector<float> decoded =
        reference_decode(fleet.layout, fleet.updates[w], fleet.rotations[w]);
    for (size_t i = 0; i < sum.size(); ++i) {
      plain[i] += double{fleet.weights[w]} * decoded[i];
      double block_max = 0;
      for (size_t j = i / 256 * 256; j < i / 256 * 256 + 256; ++j)
        block_max = std::max(block_max, std::fabs(double{decoded[j]}));
      bound[i] += fleet.weights[w] * block_max;
    }
  }
  size_t wrong = 0;
  for (size_t i = 0; i < sum.size(); ++i)
    if (std::fabs(sum[i] - plain[i]) > 0x1p-18 * bound[i] + 0x1p-90) ++wrong;
  CHECK(wrong == 0);
}

TEST_CASE("norm: the square norm of a payload is the one of what it decodes to") {
  const ParameterLayout layout = large_layout();
  for (const CodecInfo& info : codecs()) {
    CAPTURE(std::string(info.name));
    const RotationKey rotation{kSeed, 3};
    std::vector<float> residual(layout.element_count());
    EncodedUpdate out;
    REQUIRE(
        encode_update(layout, info.id, rotation, sample_update(layout, seed(), 5), residual, &out)
            .ok());
    double got = 0;
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
      got += payload_norm_squared(layout, verify_payload(layout, chunk, out.chunks[chunk]).value());
    double want = 0;
    for (float value : reference_decode(layout, out, rotation)) want += double{value} * value;
    CHECK(std::fabs(got - want) <= 1e-9 * want);
  }
}

TEST_CASE("round_weight: the nearest bf16, ties to even, straight from double, never below 2^-12") {
  Random random(seed(), 9);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    double weight = random.unit() * (random.below(2) == 0 ? 1.0 : 0x1p-10);
    if (repeat % 5 == 0) weight = std::ldexp(257.0 + 2.0 * double(random.below(100)), -9);  // a tie
    const float got = round_weight(weight);
    uint32_t bits;
    std::memcpy(&bits, &got, sizeof bits);
    REQUIRE((bits & 0xFFFF) == 0);
    if (weight <= 0x1p-12) {
      REQUIRE(got == 0x1p-12f);
      continue;
    }
    const double down = from_bf16(static_cast<uint16_t>((bits >> 16) - 1));
    const double up = from_bf16(static_cast<uint16_t>((bits >> 16) + 1));
    const double error = std::fabs(weight - double{got});
    REQUIRE(error <= std::fabs(weight - down));
    REQUIRE(error <= std::fabs(weight - up));
    if (error == std::fabs(weight - down) || error == std::fabs(weight - up))
      REQUIRE((bits >> 16 & 1) == 0);
  }
  CHECK(round_weight(0.0) == 0x1p-12f);
  CHECK(round_weight(-1.0) == 0x1p-12f);
  CHECK(round_weight(1.0) == 1.0f);
  // Half a step above 1 and a little more: a stop at float32 would make it a tie and round it down.
  CHECK(round_weight(1.0 + 0x1p-8 + 0x1p-40) == 1.0f + 0x1p-7f);
}

// apply_mean() on the first values of a block, on every kernel set.
void check_mean(std::vector<float> sum, float divisor, float keep, std::vector<float> master,
                std::vector<float> want) {
  for (std::vector<float>* values : {&sum, &master, &want}) values->resize(kBlockElements);
  on_every_kernel_set([&](const KernelSet& set) {
    CAPTURE(std::string(set.name));
    std::vector<float> got = master;
    apply_mean(sum, divisor, keep, got);
    CHECK(same_bytes(got, want));
  });
}

TEST_CASE("apply_mean: mean, keep and the three flushes, element by element") {
  check_mean({3.0f, 0x1p-101f, -0x1p-99f, 0x1p-88f, -0.0f, 8.0f, 0.0f}, 4.0f, 1.0f,
             {1.0f, 2.0f, 3.0f, 0.0f, 1.0f, -2.0f, 0x1p-95f},
             {1.75f, 2.0f, 3.0f, 0x1p-90f, 1.0f, 0.0f, 0.0f});
  const float kept = 3.0f * 0.9f;
  check_mean({1.0f, 0.1f}, 3.0f, 0.9f, {1.0f, 3.0f}, {0.9f + 1.0f / 3.0f, kept + 0.1f / 3.0f});
  check_mean({0x1p-89f}, 4.0f, 1.0f, {0x1p-89f}, {0x1p-89f});  // a mean of 2^-91 counts as 0
}

}  // namespace
}  // namespace paceline::test
