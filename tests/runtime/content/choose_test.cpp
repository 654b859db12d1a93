#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/random.h"
#include "tests/runtime/content/fleet_facts.h"
#include "tests/support/seed.h"

using namespace paceline;
using test::FleetOnLinks;

namespace {

ContentModel demo_model() {
  ContentModel model;
  model.sizes = test::demo_sizes();
  test::observe_all([&](CodecId codec, const CodingNorms& norms) {
    model.up.observe(codec, norms);
    model.down.observe(codec, norms);
  });
  return model;
}

std::vector<CodecId> all_codecs() {
  std::vector<CodecId> ids;
  for (const CodecInfo& codec : codecs())
    if (may_be_chosen(codec)) ids.push_back(codec.id);
  return ids;
}

Price chosen(const ContentModel& model, const ContentFacts& facts) {
  return choose(model, facts, all_codecs(), all_codecs());
}

}  // namespace

TEST_SUITE("content/choose") {
  TEST_CASE("the length of a payload is what the encoder makes of it, to a few per cent") {
    const ParameterLayout layout = ParameterLayout::make({{"a", TensorClass::kWeight, {128, 784}},
                                                          {"b", TensorClass::kBias, {128}},
                                                          {"c", TensorClass::kWeight, {200'000}},
                                                          {"d", TensorClass::kWeight, {10, 128}}})
                                       .value();
    const PayloadSizes sizes = PayloadSizes::of(layout);
    CHECK(sizes.chunk_count == layout.chunk_count());
    Random random(test::seed(), 24);
    std::vector<float> update(layout.element_count());
    for (const TensorSpec& tensor : layout.tensors())
      for (uint64_t i = tensor.offset; i < tensor.offset + tensor.count; ++i)
        update[static_cast<size_t>(i)] = random.symmetric();
    for (const CodecInfo& codec : codecs()) {
      CAPTURE(std::string(codec.name));
      std::vector<float> residual(update.size());
      EncodedUpdate encoded;
      REQUIRE(encode_update(layout, codec.id, {1, 1}, update, residual, &encoded).ok());
      CHECK(sizes.bytes(codec) ==
            doctest::Approx(static_cast<double>(encoded.bytes())).epsilon(0.2));
    }
  }

  TEST_CASE(
      "nothing is more than 3 % cheaper than the choice, and what is as cheap is no shorter") {
    Random random(test::seed(), 25);
    const ContentModel model = demo_model();
    for (int trial = 0; trial < 300; ++trial) {
      std::vector<double> rates(1 + static_cast<size_t>(random.below(5)));
      for (double& rate : rates) rate = 0.01 * std::pow(1e6, random.unit());
      FleetOnLinks fleet(rates);
      for (WorkerCost& worker : fleet.workers) worker.step_us = 100 * std::pow(1e4, random.unit());
      fleet.facts.tau = 1u << random.below(7);
      fleet.facts.rounds = random.below(2) == 0;
      const Price best = chosen(model, fleet.facts);
      for (const CodecId up : all_codecs()) {
        for (const CodecId down : all_codecs()) {
          const Price other = model.price(fleet.facts, {up, down});
          CHECK(best.us_for_progress <= 1.0301 * other.us_for_progress);
          if (other.us_for_progress <= best.us_for_progress) CHECK(best.bytes <= other.bytes);
        }
      }
    }
  }

  TEST_CASE("the thinner the link, the fewer bytes; bits and tau move together") {
    const ContentModel model = demo_model();
    double bytes_before = 1e18;
    uint32_t tau = 0;
    for (const double rate : {1e5, 1e3, 100.0, 10.0, 1.0, 0.1, 0.01}) {
      FleetOnLinks fleet({rate, rate, rate, rate});
      const Price price = chosen(model, fleet.facts);
      CHECK(price.bytes <= bytes_before);
      bytes_before = price.bytes;
      CHECK(price.tau >= tau);
      tau = price.tau;
    }
    FleetOnLinks fast({1e5}), thin({0.1});
    CHECK(chosen(model, fast.facts).bytes > 2 * chosen(model, thin.facts).bytes);
  }

  TEST_CASE("a link that is thin one way gets fewer bits that way") {
    const ContentModel model = demo_model();
    FleetOnLinks fleet({1000});
    fleet.workers[0].link.up_us_per_byte = 80;  // 0.1 Mbit/s
    const CodecPair codecs = chosen(model, fleet.facts).codecs;
    CHECK(codec_info(codecs.up).bits_per_element < codec_info(codecs.down).bits_per_element);
  }

  TEST_CASE("in rounds the slowest link decides, otherwise the fleet's mean") {
    const ContentModel model = demo_model();
    FleetOnLinks one_thin({1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 0.5}), thin({0.5}), fast({1e4});
    CHECK(chosen(model, one_thin.facts).codecs == chosen(model, thin.facts).codecs);
    one_thin.facts.rounds = fast.facts.rounds = false;
    CHECK(chosen(model, one_thin.facts).bytes > 3 * chosen(model, thin.facts).bytes);
    CHECK(chosen(model, one_thin.facts).bytes <= chosen(model, fast.facts).bytes);
  }

  TEST_CASE("a codec that keeps back nearly everything is not cheap however short it is") {
    ContentModel model = demo_model();
    for (int i = 0; i < 9; ++i)
      for (LossEstimate* losses : {&model.up, &model.down}) {
        losses->observe(CodecId::kTk1, {0, 1, 0.999});
        losses->observe(CodecId::kTk5, {0, 1, 0.999});
      }
    FleetOnLinks fleet({1});
    const CodecPair codecs = chosen(model, fleet.facts).codecs;
    for (const CodecId codec : {codecs.up, codecs.down}) {
      CHECK(codec != CodecId::kTk1);
      CHECK(codec != CodecId::kTk5);
    }
  }
}
