// Equal bytes everywhere: hashes of what codecs, sums and deltas give for one seeded run. Every
// CPU, compiler and kernel set must print the constants below. A change of them is a change of the
// wire format or of the sum, and needs a new version number.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "runtime/base/checksum.h"
#include "runtime/quant/codec.h"
#include "tests/golden/flush_to_zero.h"
#include "tests/runtime/quant/samples.h"

namespace paceline::test {
namespace {

constexpr uint64_t kSeed = 0xE0A1;
constexpr size_t kWorkers = 4;
constexpr uint64_t kRounds = 3;

struct Hashes {
  uint32_t payloads = 0;
  uint32_t residuals = 0;
  uint32_t sums = 0;
  uint32_t deltas = 0;
  uint32_t published = 0;
  bool operator==(const Hashes&) const = default;
};

// In the order of codecs.inc.
constexpr Hashes kWant[] = {
    {0x5B8AEF10, 0x5C8D9BA1, 0xDB33B49C, 0x0CFE6100, 0xD870E850},
    {0x57EE7125, 0x893F748C, 0xF9F2B648, 0x63F2C493, 0xC4CFF53A},
    {0x9EDD846D, 0xAE30E41C, 0x81A7D098, 0x1DCE9F16, 0xD320EC88},
    {0x6629F05D, 0x56DDBAE2, 0xB6177243, 0x6ED283A0, 0x0C2348A5},
    {0xF2BB9E42, 0x8474F108, 0x8ECBCA63, 0x018980BF, 0xF56815D1},
    {0x97EE4974, 0x0F289604, 0x115557A0, 0xB3AF0EA6, 0x2B4795F4},
    {0x5D62DF4C, 0x6C83BC4C, 0x3090CF38, 0x08098475, 0xDC55A1FF},
    {0xD30EF468, 0xF61756D5, 0x53340253, 0xD7564839, 0x6D9E10FC},
    {0x977CD32C, 0xCE109DFD, 0xA6C2FF02, 0x1F65811C, 0x2C75BA01},
};

uint32_t hash(std::span<const float> values, uint32_t before) {
  return crc32c(std::as_bytes(values), before);
}

// A fleet of four with error feedback both ways.
Hashes run(const ParameterLayout& layout, CodecId codec) {
  Hashes hashes;
  std::vector<std::vector<float>> residuals(kWorkers, std::vector<float>(layout.element_count()));
  std::vector<EncodedUpdate> updates(kWorkers);
  std::vector<float> master = sample_update(layout, kSeed, 1);
  std::vector<float> published(layout.element_count());
  std::vector<float> sum(layout.element_count());
  for (uint64_t round = 0; round < kRounds; ++round) {
    float divisor = 0;
    std::vector<float> weights;
    for (size_t w = 0; w < kWorkers; ++w) {
      // One worker in four is a publication behind, and so has another key.
      const RotationKey rotation{kSeed, w == 3 && round > 0 ? round - 1 : round};
      const std::vector<float> update = sample_update(layout, kSeed, 10 + round * kWorkers + w);
      REQUIRE(encode_update(layout, codec, rotation, update, residuals[w], &updates[w]).ok());
      hashes.payloads = crc32c(std::as_bytes(std::span(&updates[w].checksum, 1)), hashes.payloads);
      hashes.residuals = hash(residuals[w], hashes.residuals);
      weights.push_back(round_weight(1.0 / static_cast<double>(w + 1)));
      divisor += weights.back();
    }
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      std::vector<WeightedPayload> payloads;
      for (size_t w = 0; w < kWorkers; ++w)
        payloads.push_back(
            {verify_payload(layout, chunk, updates[w].chunks[chunk]).value(), weights[w]});
      sum_payloads(layout, chunk, payloads, kSeed, sum);
    }
    hashes.sums = hash(sum, hashes.sums);
    apply_mean(sum, divisor, 0.999f, master);
    EncodedUpdate delta;
    const RotationKey down{downlink_seed(kSeed), round + 1};
    REQUIRE(encode_delta(layout, codec, down, master, published, &delta).ok());
    hashes.deltas = crc32c(std::as_bytes(std::span(&delta.checksum, 1)), hashes.deltas);
    hashes.published = hash(published, hashes.published);
  }
  return hashes;
}

TEST_CASE("equal bytes: payloads, residuals, sums, deltas and models hash to the recorded values") {
  const ParameterLayout layout = large_layout();
  REQUIRE(std::size(kWant) == codecs().size());
  on_every_kernel_set([&](const KernelSet& set) {
    std::printf("equal bytes on %s\n", set.name);
    for (size_t k = 0; k < codecs().size(); ++k) {
      const Hashes got = run(layout, codecs()[k].id);
      if (!(got == kWant[k]))
        std::printf("%s on %s: {0x%08X, 0x%08X, 0x%08X, 0x%08X, 0x%08X}\n", codecs()[k].name,
                    set.name, got.payloads, got.residuals, got.sums, got.deltas, got.published);
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codecs()[k].name));
      CHECK(got == kWant[k]);
    }
  });
}

TEST_CASE("equal bytes: flush-to-zero changes nothing") {
  const ParameterLayout layout = small_layout();
  on_every_kernel_set([&](const KernelSet& set) {
    for (const CodecInfo& info : codecs()) {
      const Hashes off = run(layout, info.id);
      Hashes on;
      {
        const FlushToZero flush;
        on = run(layout, info.id);
      }
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(info.name));
      CHECK(on == off);
    }
  });
}

}  // namespace
}  // namespace paceline::test
