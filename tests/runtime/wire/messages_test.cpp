#include "runtime/wire/messages.h"

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/wire/message_bounds.h"
#include "tests/runtime/wire/random_message.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr size_t kKindCount = std::variant_size_v<Message>;

std::string hex(ByteSpan bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    text += "0123456789abcdef"[static_cast<size_t>(byte) >> 4];
    text += "0123456789abcdef"[static_cast<size_t>(byte) & 15];
  }
  return text;
}

// Fails the test unless `bytes` are refused as corrupt or hold a message that keeps the bounds.
// Returns whether they were decoded.
bool refused_or_bounded(ByteSpan bytes) {
  const Result<Envelope> envelope = decode(bytes);
  if (!envelope) {
    REQUIRE(envelope.error().code() == Code::kCorrupt);
    return false;
  }
  REQUIRE(within_bounds(envelope->message).ok());
  return true;
}

TEST_SUITE_BEGIN("wire/messages");

TEST_CASE("decode gives back whatever message encode was given") {
  RandomMessage random(seed(), 4096);
  for (int round = 0; round < 100; ++round) {
    for (size_t kind = 0; kind < kKindCount; ++kind) {
      const Envelope envelope = random.next_envelope(kind);
      const Bytes bytes = encode(envelope);
      const Result<Envelope> decoded = decode(bytes);
      REQUIRE_MESSAGE(decoded, message_name(envelope.message));
      REQUIRE_MESSAGE(*decoded == envelope, message_name(envelope.message));
      REQUIRE(encode(*decoded) == bytes);
    }
  }
}

TEST_CASE("messages of default content and of the largest allowed size go through") {
  RandomMessage random(seed(), 0);
  for (size_t kind = 0; kind < kKindCount; ++kind) {
    Message message = random.next(kind);
    std::visit([](auto& m) { m = {}; }, message);
    const Result<Envelope> decoded = decode(encode({.session = 0, .message = message}));
    REQUIRE(decoded);
    CHECK(decoded->message == message);
  }
  const Push push{.chunk_count = kModelChunksMax, .payload = Bytes(kChunkBytesMax)};
  const Bytes bytes = encode({.session = 1, .message = push});
  CHECK(bytes.size() <= kMessageBytesMax);
  CHECK(std::get<Push>(decode(bytes)->message) == push);
}

TEST_CASE("a message cut short is refused, unless only padding is missing") {
  RandomMessage random(seed(), 200);
  for (size_t kind = 0; kind < kKindCount; ++kind) {
    const Envelope envelope = random.next_envelope(kind);
    const Bytes bytes = encode(envelope);
    // What is cut off lies in its own allocation, so that a read past the end is seen.
    for (size_t size = 0; size < bytes.size(); ++size) {
      const Bytes cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
      const Result<Envelope> decoded = decode(cut);
      if (decoded) {
        REQUIRE(bytes.size() - size < 8);
        REQUIRE(*decoded == envelope);
      } else {
        REQUIRE(decoded.error().code() == Code::kCorrupt);
      }
    }
  }
}

TEST_CASE("every change of one byte is refused or gives a message within the bounds") {
  RandomMessage random(seed(), 40);
  Random change(seed(), 8);
  size_t decoded_count = 0;
  size_t refused_count = 0;
  for (size_t kind = 0; kind < kKindCount; ++kind) {
    Bytes bytes = encode(random.next_envelope(kind));
    if (bytes.size() > 700) bytes = encode(random.next_envelope(kind));
    for (size_t i = 0; i < bytes.size(); ++i) {
      const std::byte before = bytes[i];
      for (const auto value : {0x00, 0x01, 0x7f, 0x80, 0xff, static_cast<int>(change.below(256))}) {
        bytes[i] = static_cast<std::byte>(value);
        (refused_or_bounded(bytes) ? decoded_count : refused_count) += 1;
      }
      bytes[i] = before;
    }
  }
  CHECK(decoded_count > 0);
  CHECK(refused_count > 0);
}

TEST_CASE("noise is refused, marked as ours or not") {
  Random random(seed(), 9);
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes(static_cast<size_t>(random.below(200)));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
    if (bytes.size() >= 8 && round % 2 == 0) {
      const uint32_t root = 8 + static_cast<uint32_t>(random.below(bytes.size()));
      std::memcpy(bytes.data(), &root, sizeof root);
      std::memcpy(bytes.data() + 4, "PCL1", 4);
    }
    refused_or_bounded(bytes);
  }
}

TEST_CASE("a message is read at any alignment") {
  RandomMessage random(seed(), 100);
  for (size_t shift = 0; shift < 8; ++shift) {
    const Envelope envelope = random.next_envelope(shift);
    Bytes bytes(shift);
    const Bytes encoded = encode(envelope);
    bytes.insert(bytes.end(), encoded.begin(), encoded.end());
    const Result<Envelope> decoded = decode(ByteSpan(bytes).subspan(shift));
    REQUIRE(decoded);
    CHECK(*decoded == envelope);
  }
}

TEST_CASE("what passes a bound is refused by name") {
  const auto refusal = [](const Message& message) {
    const Status status = within_bounds(message);
    CHECK(status.code() == Code::kCorrupt);
    return status.message();
  };
  CHECK(refusal(Hello{.name = std::string(65, 'a'), .build = {}}) ==
        "Hello.name has 65 bytes, at most 64 are allowed");
  CHECK(refusal(Push{.payload = Bytes(kChunkBytesMax + 1)}).starts_with("Push.payload has "));
  CHECK(refusal(Push{.chunk = kModelChunksMax, .payload = {}}) ==
        "Push.chunk is 512, at most 511 is allowed");
  CHECK(refusal(Welcome{.verdict = static_cast<Verdict>(3), .run = {}, .directive = {}}) ==
        "Welcome.verdict is 3, at most 2 is allowed");
  CHECK(refusal(Refused{.refusal = static_cast<RefusalClass>(5), .reason = {}, .fix = {}})
            .starts_with("Refused.refusal is 5"));
  CHECK(refusal(Missing{.chunks = std::vector<uint32_t>(kModelChunksMax + 1)})
            .starts_with("Missing.chunks has 513 entries"));
  CHECK(refusal(Exchange{.evaluations = std::vector<Evaluation>(kEvaluationsPerExchangeMax + 1),
                         .statistics = {}})
            .starts_with("Exchange.evaluations has 9 entries"));
  const std::vector<float> many(kStatisticElementsMax + 1);
  CHECK(refusal(Exchange{.evaluations = {}, .statistics = many})
            .starts_with("Exchange.statistics has 14337 entries"));
  CHECK(refusal(Fetched{.payload = {}, .statistics = many})
            .starts_with("Fetched.statistics has 14337 entries"));
  Granted granted;
  granted.directive.tau = kTauMax + 1;
  CHECK(refusal(granted).starts_with("directive.tau is 1025"));
}

TEST_CASE("a message above the largest size is refused before it is looked at") {
  const Result<Envelope> decoded = decode(Bytes(kMessageBytesMax + 1));
  REQUIRE(!decoded);
  CHECK(decoded.error().message() == "message of 1114113 bytes, must be 16 to 1114112");
}

TEST_CASE("another program's bytes are refused by their mark") {
  Bytes bytes = encode({.session = 1, .message = Close{.round = 2}});
  bytes[7] = std::byte{'2'};
  const Result<Envelope> decoded = decode(bytes);
  REQUIRE(!decoded);
  CHECK(decoded.error().message().find("is not marked \"PCL1\"") != std::string::npos);
}

TEST_CASE("every kind of message has a name of its own") {
  RandomMessage random(seed(), 0);
  std::set<std::string> names;
  for (size_t kind = 0; kind < kKindCount; ++kind) names.insert(message_name(random.next(kind)));
  CHECK(names.size() == kKindCount);
  CHECK(std::string(message_name(HeartbeatReply{})) == "HeartbeatReply");
}

// A changed schema that is not only an addition shows here: old workers could not read it.
TEST_CASE("golden: the bytes of a Hello and an Exchange never change") {
  const Envelope hello{.session = 0,
                       .message = Hello{.name = "greenhouse",
                                        .incarnation = 3,
                                        .protocol_min = 1,
                                        .protocol_max = 1,
                                        .build = "0.1.0",
                                        .generation = 2,
                                        .publication = 17,
                                        .published_checksum = 0x12345678,
                                        .last_settled = 16,
                                        .pending_sequence = 0,
                                        .training_rows = 900,
                                        .held_out_rows = 100,
                                        .feature_count = 9,
                                        .class_count = 4}};
  const Envelope exchange{.session = 0x0102030405060708,
                          .message = Exchange{.incarnation = 3,
                                              .sequence = 17,
                                              .update_checksum = 0xcafe0001,
                                              .chunk_count = 2,
                                              .generation = 2,
                                              .base_publication = 17,
                                              .base_checksum = 0x12345678,
                                              .round = 5,
                                              .steps = 8,
                                              .clock = 136,
                                              .step_us = 40'000,
                                              .waited_us = 1'500'000,
                                              .training_loss = 0.75f,
                                              .leaving = true,
                                              .evaluations = {{.publication = 17,
                                                               .rows = 100,
                                                               .correct = 91,
                                                               .loss_fixed16 = 1'234'567}},
                                              .statistics = {}}};
  const std::string hello_bytes =
      "1400000050434c3100000a000c000000070008000a00000000000001240000002000540004002000"
      "08000c001000280030001400380000004000480018001c00200000005c0000000100000001000000"
      "44000000785634120900000004000000030000000000000002000000000000001100000000000000"
      "1000000000000000840300000000000064000000000000000000000005000000302e312e30000000"
      "0a000000677265656e686f7573650000";
  const std::string exchange_bytes =
      "1400000050434c3100000a0016000c00070008000a00000000000007300000000807060504030201"
      "000022005c0024002c0008000c0034003c001000440014004c00180054001c000700200022000000"
      "000000010100feca020000007856341208000000409c00000000403f3c0000000300000000000000"
      "11000000000000000200000000000000110000000000000005000000000000008800000000000000"
      "60e316000000000001000000100000000c00240004000c0014001c000c0000001100000000000000"
      "64000000000000005b0000000000000087d6120000000000";
  CHECK(hex(encode(hello)) == hello_bytes);
  CHECK(hex(encode(exchange)) == exchange_bytes);
}

TEST_SUITE_END();

}  // namespace
}  // namespace paceline::test
