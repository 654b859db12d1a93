// After the first exchange of a run, no exchange allocates: neither a worker's half nor the
// server's.
#include <doctest/doctest.h>

#include <string>

#include "runtime/quant/codec.h"
#include "tests/runtime/quant/samples.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr size_t kWorkers = 3;
constexpr uint64_t kSeed = 0xA110C;

// Some workers' updates and a model, through whole rounds in memory that stays.
class Exchange {
 public:
  Exchange(const ParameterLayout& layout, CodecId up, CodecId down)
      : layout_(layout), up_(up), down_(down), updates_(kWorkers), residuals_(kWorkers) {
    for (size_t w = 0; w < kWorkers; ++w) {
      inputs_.push_back(sample_update(layout, seed(), w));
      residuals_[w].resize(layout.element_count());
    }
    master_ = sample_update(layout, seed(), kWorkers);
    flush_small(master_);
    published_ = master_;
    next_ = master_;
    held_ = master_;
    payloads_.reserve(kWorkers * layout.chunk_count());
  }

  // True if all went well. Checks are the caller's: doctest's own allocate.
  bool round(uint64_t number) {
    bool good = true;
    for (size_t w = 0; w < kWorkers; ++w)
      good &= encode_update(layout_, up_, {kSeed, number}, inputs_[w], residuals_[w], &updates_[w])
                  .ok();
    payloads_.clear();
    for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
      for (const EncodedUpdate& update : updates_) {
        const Result<PayloadView> view = verify_payload(layout_, chunk, update.chunks[chunk]);
        good &= view.has_value() && payload_norm_squared(layout_, *view) >= 0;
        if (view) payloads_.push_back({*view, 1.0f});
      }
    good &= close_and_publish(layout_, {payloads_, kSeed, float{kWorkers}, 1}, down_,
                              {downlink_seed(kSeed), number}, master_, published_, next_, &delta_)
                .ok();
    for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      const Result<PayloadView> view = verify_payload(layout_, chunk, delta_.chunks[chunk]);
      good &= view.has_value();
      if (view) apply_delta(layout_, *view, downlink_seed(kSeed), held_);
    }
    good &= same_bytes(held_, next_);
    published_.swap(next_);
    // A refusal.
    for (uint32_t chunk = 0; chunk < layout_.chunk_count(); ++chunk)
      add_payload(layout_, payloads_[chunk * kWorkers].payload, kSeed, residuals_[0]);
    return good;
  }

 private:
  const ParameterLayout& layout_;
  CodecId up_;
  CodecId down_;
  std::vector<EncodedUpdate> updates_;
  std::vector<std::vector<float>> residuals_;
  std::vector<std::vector<float>> inputs_;
  std::vector<WeightedPayload> payloads_;
  std::vector<float> master_, published_, next_, held_;
  EncodedUpdate delta_;
};

void check_steady(const ParameterLayout& layout, CodecId up, CodecId down) {
  CAPTURE(std::string(codec_info(up).name));
  CAPTURE(std::string(codec_info(down).name));
  Exchange exchange(layout, up, down);
  const uint64_t start = allocation_counts().calls;
  bool good = exchange.round(1);
  const uint64_t before = allocation_counts().calls;
  for (uint64_t number = 2; number < 6; ++number) good &= exchange.round(number);
  const uint64_t after = allocation_counts().calls;
  CHECK(good);
  CHECK(before > start);
  CHECK(after == before);
}

TEST_CASE("exchange: nothing is allocated after the first round, with every pair of codecs") {
  const ParameterLayout layout = small_layout();
  for (const CodecInfo& up : codecs())
    for (const CodecInfo& down : codecs())
      if (check_codec_down(down.id).ok()) check_steady(layout, up.id, down.id);
}

TEST_CASE("exchange: nothing is allocated after the first round of a model of several chunks") {
  const ParameterLayout layout = large_layout();
  for (const CodecInfo& codec : codecs()) check_steady(layout, codec.id, CodecId::kQ8);
}

}  // namespace
}  // namespace paceline::test
