#include "runtime/quant/codec.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <string>

#include "runtime/base/checksum.h"
#include "tests/runtime/quant/reference.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr RotationKey kUp{0x5EED, 42};

PayloadView verified(const ParameterLayout& layout, const EncodedUpdate& encoded, uint32_t chunk) {
  Result<PayloadView> view = verify_payload(layout, chunk, encoded.chunks[chunk]);
  REQUIRE_MESSAGE(view, (view ? "" : view.error().message()));
  return *view;
}

void add_all(const ParameterLayout& layout, const EncodedUpdate& encoded, uint64_t seed,
             std::span<float> into) {
  for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
    add_payload(layout, verified(layout, encoded, chunk), seed, into);
}

TEST_CASE("codecs: ids and names are unique and found again") {
  std::set<std::string> names;
  for (const CodecInfo& info : codecs()) {
    CHECK(names.insert(info.name).second);
    CHECK(codec_by_name(info.name).value() == info.id);
    CHECK(codec_by_wire_id(static_cast<uint8_t>(info.id)).value() == info.id);
    CHECK(std::string(codec_info(info.id).name) == info.name);
  }
  const Result<CodecId> unknown = codec_by_name("q9");
  CHECK(unknown.error().code() == Code::kInvalidArgument);
  CHECK(unknown.error().message().find("s1r") != std::string::npos);
  CHECK(codec_by_wire_id(200).error().code() == Code::kCorrupt);
}

TEST_CASE("codecs: what may not carry deltas says why, and what may") {
  const Status refused = check_codec_down(CodecId::kS1);
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK(refused.message().find("s1 can't go down") != std::string::npos);
  CHECK(refused.message().find("use s1r or q8") != std::string::npos);
  for (const CodecInfo& info : codecs())
    CHECK(check_codec_down(info.id).ok() == (info.id != CodecId::kS1));
}

TEST_CASE("encode: a value that is not finite or not below 2^119 changes nothing, wherever it is") {
  const ParameterLayout layout = small_layout();
  Random random(seed(), 1);
  const float infinity = std::numeric_limits<float>::infinity();
  on_every_kernel_set([&](const KernelSet&) {
    for (const CodecInfo& info : codecs())
      for (float bad : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity, 0x1p119f,
                        -0x1p119f, 0x1p127f}) {
        std::vector<float> update = sample_update(layout, seed(), 2);
        update[static_cast<size_t>(random.below(layout.element_count()))] = bad;
        const std::vector<float> before = sample_update(layout, seed(), 3);
        std::vector<float> residual = before;
        EncodedUpdate out;
        out.chunks = {Bytes(3, std::byte{7})};
        const Status status = encode_update(layout, info.id, kUp, update, residual, &out);
        CHECK(status.code() == Code::kInvalidArgument);
        CHECK(same_bytes(residual, before));
        CHECK(out.chunks == std::vector<Bytes>{Bytes(3, std::byte{7})});
        std::vector<float> published = before;
        CHECK(encode_delta(layout, info.id, kUp, update, published, &out).code() ==
              Code::kInvalidArgument);
        CHECK(same_bytes(published, before));
      }
  });
}

TEST_CASE("encode: the largest legal values of every codec verify") {
  const ParameterLayout layout = small_layout();
  const float largest = 0x1.fffffep118f;
  for (const CodecInfo& info : codecs()) {
    std::vector<float> update = sample_update(layout, seed(), 4);
    for (size_t i = 0; i < 4096; ++i) update[i] = i % 3 == 0 ? largest : -largest;
    std::vector<float> residual(layout.element_count());
    EncodedUpdate out;
    REQUIRE(encode_update(layout, info.id, kUp, update, residual, &out).ok());
    for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk) verified(layout, out, chunk);
  }
}

TEST_CASE("encode: what decodes is what an independent reader finds, for several rounds") {
  const ParameterLayout layout = large_layout();
  for (const CodecInfo& info : codecs()) {
    CAPTURE(std::string(info.name));
    std::vector<float> residual(layout.element_count());
    EncodedUpdate out;
    for (uint64_t round = 0; round < 3; ++round) {
      const RotationKey rotation{kUp.seed, round};
      const std::vector<float> update = sample_update(layout, seed(), 10 + round);
      REQUIRE(encode_update(layout, info.id, rotation, update, residual, &out).ok());
      REQUIRE(out.chunks.size() == 2);
      CHECK(verified(layout, out, 1).key() == round);
      std::vector<float> decoded(layout.element_count());
      add_all(layout, out, rotation.seed, decoded);
      std::vector<float> want = reference_decode(layout, out, rotation);
      for (float& value : want) value = reference_flush(0.0f + value);
      CHECK(same_bytes(decoded, want));
    }
  }
}

TEST_CASE("encode: the checksum covers the chunks in order and bytes() their lengths") {
  const ParameterLayout layout = large_layout();
  const std::vector<float> update = sample_update(layout, seed(), 20);
  std::vector<float> residual(layout.element_count());
  EncodedUpdate out;
  REQUIRE(encode_update(layout, CodecId::kQ8, kUp, update, residual, &out).ok());
  Bytes all = out.chunks[0];
  all.insert(all.end(), out.chunks[1].begin(), out.chunks[1].end());
  CHECK(out.checksum == crc32c(all));
  CHECK(out.bytes() == all.size());
}

TEST_CASE("un-send: what was sent and taken back leaves what was to be sent, with exact codecs") {
  const ParameterLayout layout = small_layout();
  on_every_kernel_set([&](const KernelSet& set) {
    for (const CodecId codec : {CodecId::kRaw32, CodecId::kBf16, CodecId::kQ8, CodecId::kQ4,
                                CodecId::kTk1, CodecId::kTk5}) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(codec_info(codec).name));
      const std::vector<float> update = sample_update(layout, seed(), 30);
      const std::vector<float> before = sample_update(layout, seed(), 31);
      std::vector<float> residual = before;
      EncodedUpdate out;
      REQUIRE(encode_update(layout, codec, kUp, update, residual, &out).ok());
      add_all(layout, out, kUp.seed, residual);
      size_t wrong = 0;
      for (size_t i = 0; i < update.size(); ++i) {
        const float c = reference_flush(update[i] + before[i]);
        if (!(std::fabs(residual[i] - c) <= 0x1p-90f)) ++wrong;
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("delta: server and worker hold the same published model, bit for bit") {
  const ParameterLayout layout = large_layout();
  on_every_kernel_set([&](const KernelSet& set) {
    for (const CodecInfo& info : codecs()) {
      CAPTURE(std::string(set.name));
      CAPTURE(std::string(info.name));
      std::vector<float> master = sample_update(layout, seed(), 40);
      std::vector<float> published = sample_update(layout, seed(), 41);
      flush_small(published);
      std::vector<float> worker = published;
      EncodedUpdate out;
      for (uint64_t number = 1; number < 4; ++number) {
        const RotationKey down{downlink_seed(kUp.seed), number};
        REQUIRE(encode_delta(layout, info.id, down, master, published, &out).ok());
        for (uint32_t chunk = 0; chunk < layout.chunk_count(); ++chunk)
          apply_delta(layout, verified(layout, out, chunk), down.seed, worker);
        REQUIRE(same_bytes(worker, published));
        const std::vector<float> step = sample_update(layout, seed(), 42 + number);
        for (size_t i = 0; i < master.size(); ++i) master[i] += step[i] * 0.01f;
        flush_small(master);
      }
    }
  });
}

TEST_CASE("delta: a RAW32 delta carries the model itself, whatever the receiver held") {
  const ParameterLayout layout = small_layout();
  const std::vector<float> master = sample_update(layout, seed(), 50);
  std::vector<float> flushed = master;
  flush_small(flushed);
  std::vector<float> published = sample_update(layout, seed(), 51);
  std::vector<float> worker = sample_update(layout, seed(), 52);
  EncodedUpdate out;
  REQUIRE(encode_delta(layout, CodecId::kRaw32, kUp, master, published, &out).ok());
  apply_delta(layout, verified(layout, out, 0), kUp.seed, worker);
  CHECK(same_bytes(published, flushed));
  CHECK(same_bytes(worker, flushed));
}

TEST_CASE("delta: repeated Q8 deltas of a still master close the gap to it") {
  const ParameterLayout layout = small_layout();
  const std::vector<float> master = sample_update(layout, seed(), 60);
  std::vector<float> published(layout.element_count());
  EncodedUpdate out;
  for (uint64_t number = 0; number < 20; ++number)
    REQUIRE(encode_delta(layout, CodecId::kQ8, {1, number}, master, published, &out).ok());
  for (size_t i = 0; i < master.size(); ++i)
    REQUIRE(std::fabs(master[i] - published[i]) <= 0x1p-20f * std::fabs(master[i]) + 0x1p-79f);
}

TEST_CASE("downlink_seed: another seed, the same on every call") {
  CHECK(downlink_seed(1) == downlink_seed(1));
  CHECK(downlink_seed(1) != 1);
  CHECK(downlink_seed(1) != downlink_seed(2));
}

TEST_CASE("flush_small: 2^-90 stays, anything nearer to zero becomes +0") {
  std::vector<float> values = {0x1p-90f,  -0x1p-90f, 0x1.fffffep-91f, -0x1.fffffep-91f, -0.0f,
                               0x1p-149f, 1.0f};
  flush_small(values);
  CHECK(same_bytes(values, {0x1p-90f, -0x1p-90f, 0.0f, 0.0f, 0.0f, 0.0f, 1.0f}));
}

}  // namespace
}  // namespace paceline::test
