// What every codec of codecs.inc promises, on every kernel set: lengths, pads, the size of what is
// lost, and that nothing is lost for good.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "runtime/quant/block_coder.h"
#include "runtime/quant/codec.h"
#include "tests/runtime/quant/reference.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr RotationKey kRotation{0xC0DEC, 5};

// How far decoded + residual may be from c, beyond the flush of 2^-90; by codec, in units in the
// last place of the larger of |c| and |decoded|, for rotated codecs of the block's largest.
constexpr double kLostUlps[] = {0, 0, 0, 1, 16, 0, 16, 0, 0};

bool is_rotated(CodecId codec) { return codec == CodecId::kS1r || codec == CodecId::kQ4r; }
bool is_sparse(CodecId codec) { return codec == CodecId::kTk1 || codec == CodecId::kTk5; }

double ulp(double magnitude) {
  return magnitude == 0 ? 0 : std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

struct Round {
  std::vector<float> c;
  std::vector<float> decoded;
  std::vector<float> residual;
};

Round run_round(const ParameterLayout& layout, CodecId codec, uint64_t stream) {
  Round round;
  const std::vector<float> update = sample_update(layout, seed(), stream);
  round.residual = sample_update(layout, seed(), stream + 1);
  for (size_t i = 0; i < update.size(); ++i)
    round.c.push_back(reference_flush(update[i] + round.residual[i]));
  EncodedUpdate out;
  REQUIRE(encode_update(layout, codec, kRotation, update, round.residual, &out).ok());
  round.decoded = reference_decode(layout, out, kRotation);
  return round;
}

TEST_CASE("codec: decoded + residual is c within the stated bound") {
  const ParameterLayout layout = small_layout();
  REQUIRE(std::size(kLostUlps) == codecs().size());
  on_every_kernel_set([&](const KernelSet& set) {
    for (size_t k = 0; k < codecs().size(); ++k) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codecs()[k].name));
      size_t wrong = 0;
      for (uint64_t repeat = 0; repeat < 4; ++repeat) {
        const Round round = run_round(layout, codecs()[k].id, 10 * repeat);
        for (size_t i = 0; i < round.c.size(); ++i) {
          double largest = std::max(std::fabs(round.c[i]), std::fabs(round.decoded[i]));
          if (is_rotated(codecs()[k].id))
            for (size_t j = i / 256 * 256; j < i / 256 * 256 + 256; ++j)
              largest = std::max(
                  {largest, std::fabs(double{round.c[j]}), std::fabs(double{round.decoded[j]})});
          const double lost = double{round.decoded[i]} + round.residual[i] - round.c[i];
          if (std::fabs(lost) > kLostUlps[k] * ulp(largest) + 0x1p-90) ++wrong;
          // Where the flush of the residual had no part, codes times scales lose nothing at all.
          if (kLostUlps[k] == 0 && round.residual[i] != 0 && lost != 0) ++wrong;
        }
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("codec: residuals are +0 or at least 2^-90, and +0 for pads") {
  const ParameterLayout layout = small_layout();
  on_every_kernel_set([&](const KernelSet&) {
    for (const CodecInfo& info : codecs()) {
      const Round round = run_round(layout, info.id, 50);
      size_t wrong = 0;
      for (float value : round.residual)
        if (!(std::fabs(value) >= 0x1p-90f) && (value != 0 || std::signbit(value))) ++wrong;
      for (const BlockRun& run : layout.runs())
        for (size_t i = run.element_count; i < size_t{run.block_count} * 256; ++i) {
          const size_t at = size_t{run.first_block} * 256 + i;
          if (round.residual[at] != 0 || round.decoded[at] != 0) ++wrong;
        }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE(
    "codec: a lossless codec leaves no residual, and bits_per_element is what wide blocks cost") {
  const ParameterLayout wide =
      ParameterLayout::make({{.name = "weight", .shape = {256, 256}}}).value();
  for (const CodecInfo& info : codecs()) {
    CAPTURE(std::string(info.name));
    const std::vector<float> update = sample_update(wide, seed(), 60);
    std::vector<float> residual(wide.element_count());
    EncodedUpdate out;
    REQUIRE(encode_update(wide, info.id, kRotation, update, residual, &out).ok());
    bool left = false;
    for (float value : residual) left = left || value != 0;
    CHECK(left == info.lossy);
    const double bits = 8.0 * static_cast<double>(out.bytes()) / 65536;
    // Header, padding and the first range; sparse groups also have long gaps, and may be silent.
    constexpr double kFrameBytes = 32 + 62 + 2;
    const double skips = is_sparse(info.id) ? 16 * 16 : 0;
    if (!is_sparse(info.id)) CHECK(bits >= info.bits_per_element);
    CHECK(bits <= info.bits_per_element + 8.0 * (kFrameBytes + skips) / 65536);
  }
}

TEST_CASE("codec: with a residual the sum of what was sent follows the sum of the updates") {
  const ParameterLayout layout = small_layout();
  constexpr int kRounds = 60;
  for (const CodecInfo& info : codecs()) {
    CAPTURE(std::string(info.name));
    std::vector<float> residual(layout.element_count());
    std::vector<double> produced(layout.element_count());
    std::vector<double> sent(layout.element_count());
    Random random(seed(), 70);
    for (int round = 0; round < kRounds; ++round) {
      std::vector<float> update(layout.element_count());
      for (const BlockRun& run : layout.runs())
        for (size_t i = 0; i < run.element_count; ++i)
          update[size_t{run.first_block} * 256 + i] = 0.5f + random.symmetric();
      EncodedUpdate out;
      const RotationKey rotation{1, static_cast<uint64_t>(round)};
      REQUIRE(encode_update(layout, info.id, rotation, update, residual, &out).ok());
      const std::vector<float> decoded = reference_decode(layout, out, rotation);
      for (size_t i = 0; i < update.size(); ++i) {
        produced[i] += update[i];
        sent[i] += decoded[i];
      }
    }
    double worst = 0;
    for (size_t i = 0; i < produced.size(); ++i)
      worst = std::max(worst, std::fabs(produced[i] - sent[i] - residual[i]));
    CHECK(worst < 1e-3);
  }
}

TEST_CASE("codec: without a residual a coder writes what it does with a residual of zero") {
  constexpr uint32_t kBlocks = 40;  // more than two groups of a sparse codec
  const ParameterLayout layout =
      ParameterLayout::make({{.name = "w", .shape = {kBlocks * kBlockElements}}}).value();
  const std::vector<float> update = sample_update(layout, seed(), 90);
  on_every_kernel_set([&](const KernelSet& set) {
    for (const CodecInfo& info : codecs()) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(info.name));
      const BlockCoder& coder = block_coder(info.id);
      const CodedBlocks blocks{0, kBlocks, kBlocks * kBlockElements, kRotation};
      std::vector<unsigned char> written[2];
      for (const bool kept : {false, true}) {
        std::vector<float> residual(update.size());
        const size_t scale_bytes = coder.scale_bytes_of(kBlocks);
        const size_t range_bytes = (BlockCoder::sparse_groups(kBlocks) + 1) * sizeof(uint16_t);
        std::vector<unsigned char>& out = written[kept ? 1 : 0];
        out.resize(scale_bytes + range_bytes + size_t{kBlocks} * coder.code_bytes +
                   BlockCoder::sparse_groups(kBlocks) * coder.entry_bytes_max);
        unsigned char* at = out.data();
        coder.encode(blocks, update.data(), kept ? residual.data() : nullptr,
                     {at, at + scale_bytes + range_bytes, at + scale_bytes});
      }
      CHECK(written[0] == written[1]);
    }
  });
}

TEST_CASE("codec: the same input gives the same payload, whatever the output held before") {
  const ParameterLayout layout = small_layout();
  for (const CodecInfo& info : codecs()) {
    const std::vector<float> update = sample_update(layout, seed(), 80);
    std::vector<float> residual(layout.element_count());
    EncodedUpdate fresh;
    REQUIRE(encode_update(layout, info.id, kRotation, update, residual, &fresh).ok());
    EncodedUpdate used;
    used.chunks = {Bytes(100000, std::byte{0xEE}), Bytes(5)};
    std::fill(residual.begin(), residual.end(), 0.0f);
    REQUIRE(encode_update(layout, info.id, kRotation, update, residual, &used).ok());
    CHECK(used.chunks == fresh.chunks);
    CHECK(used.checksum == fresh.checksum);
  }
}

}  // namespace
}  // namespace paceline::test
