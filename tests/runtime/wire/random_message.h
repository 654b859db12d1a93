// Well-formed messages of any content, each field anything that encode() takes.
#pragma once

#include <algorithm>
#include <bit>
#include <string>

#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "runtime/wire/messages.h"

namespace paceline::test {

class RandomMessage {
 public:
  // Payloads have at most `payload_bytes_max`.
  RandomMessage(uint64_t seed, size_t payload_bytes_max)
      : random_(seed, 7), payload_bytes_max_(payload_bytes_max) {}

  // A message of the kind that has this index in Message.
  Message next(size_t kind) { return make<0>(kind); }
  Envelope next_envelope(size_t kind) { return {.session = u64(), .message = next(kind)}; }

 private:
  template <size_t Index>
  Message make(size_t kind) {
    if constexpr (Index < std::variant_size_v<Message>) {
      if (kind != Index) return make<Index + 1>(kind);
      std::variant_alternative_t<Index, Message> message;
      fill(message);
      return message;
    }
    return {};
  }

  // Small and large numbers, and those at both ends.
  uint64_t u64() {
    const uint64_t value = random_.next() >> random_.below(64);
    return random_.below(8) == 0 ? 0 - (value & 1) : value;
  }
  uint32_t u32() { return static_cast<uint32_t>(u64()); }
  uint32_t below(uint64_t bound) { return static_cast<uint32_t>(random_.below(bound)); }
  bool flag() { return (random_.next() & 1) != 0; }
  // Any bits but NaN, which equals nothing.
  float real() {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random_.next()));
    return value == value ? value : -0.0f;
  }
  std::vector<float> reals() {
    std::vector<float> values(flag() ? below(40) : 0);
    std::generate(values.begin(), values.end(), [&] { return real(); });
    return values;
  }
  std::string text(size_t bytes_max) {
    std::string text(below(bytes_max + 1), ' ');
    std::generate(text.begin(), text.end(), [&] { return static_cast<char>(random_.next()); });
    return text;
  }
  Bytes payload() {
    Bytes bytes(below(payload_bytes_max_ + 1));
    std::generate(bytes.begin(), bytes.end(),
                  [&] { return static_cast<std::byte>(random_.next()); });
    return bytes;
  }

  void fill(Directive& m) {
    m = {.tau = below(kTauMax + 1),
         .steps_cap = u32(),
         .codec_up = static_cast<uint8_t>(u32()),
         .codec_down = static_cast<uint8_t>(u32()),
         .rate = real(),
         .keep = real(),
         .elastic = flag(),
         .evaluate = flag(),
         .finish = flag(),
         .reason = text(kReasonBytesMax)};
  }
  void fill(Hello& m) {
    m = {.name = text(kNameBytesMax),
         .incarnation = u64(),
         .protocol_min = u32(),
         .protocol_max = u32(),
         .build = text(kReasonBytesMax),
         .generation = u64(),
         .publication = u64(),
         .published_checksum = u32(),
         .last_settled = u64(),
         .pending_sequence = u64(),
         .training_rows = u64(),
         .held_out_rows = u64(),
         .feature_count = u32(),
         .class_count = u32()};
  }
  void fill(Welcome& m) {
    m = {.session = u64(),
         .worker_id = u32(),
         .protocol = u32(),
         .generation = u64(),
         .publication = u64(),
         .checksum = u32(),
         .last_settled = u64(),
         .verdict = static_cast<Verdict>(below(3)),
         .held = flag(),
         .next_sequence = u64(),
         .round = u64(),
         .seed = u64(),
         .heartbeat_ms = u32(),
         .exchange_timeout_ms = u32(),
         .run = text(std::min(payload_bytes_max_, kRunTextBytesMax)),
         .directive = {},
         .start_checksum = u32()};
    fill(m.directive);
  }
  void fill(Push& m) {
    m = {.incarnation = u64(),
         .sequence = u64(),
         .update_checksum = u32(),
         .chunk = below(kModelChunksMax),
         .chunk_count = below(kModelChunksMax + 1),
         .payload = payload()};
  }
  void fill(Got& m) { m = {.sequence = u64(), .chunk = below(kModelChunksMax)}; }
  void fill(Ready& m) { m = {.incarnation = u64(), .round = u64(), .steps = u32()}; }
  void fill(Close& m) { m = {.round = u64()}; }
  void fill(Exchange& m) {
    m = {.incarnation = u64(),
         .sequence = u64(),
         .update_checksum = u32(),
         .chunk_count = below(kModelChunksMax + 1),
         .generation = u64(),
         .base_publication = u64(),
         .base_checksum = u32(),
         .round = u64(),
         .steps = u32(),
         .clock = u64(),
         .step_us = u32(),
         .waited_us = u64(),
         .training_loss = real(),
         .leaving = flag(),
         .evaluations = std::vector<Evaluation>(below(kEvaluationsPerExchangeMax + 1)),
         .push_us = u32(),
         .fetch_us = u32(),
         .update_norm = real(),
         .coded_norm = real(),
         .residual_norm = real(),
         .statistic_rows = u64(),
         .statistics = reals()};
    for (Evaluation& evaluation : m.evaluations)
      evaluation = {.publication = u64(), .rows = u64(), .correct = u64(), .loss_fixed16 = u64()};
  }
  void fill(Granted& m) {
    m = {.sequence = u64(),
         .generation = u64(),
         .publication = u64(),
         .version = u64(),
         .checksum = u32(),
         .round = u64(),
         .durable = flag(),
         .directive = {}};
    fill(m.directive);
  }
  void fill(Refused& m) {
    m = {.sequence = u64(),
         .refusal = static_cast<RefusalClass>(below(5)),
         .reason = text(kReasonBytesMax),
         .fix = text(kReasonBytesMax)};
  }
  void fill(Missing& m) {
    m = {.sequence = u64(), .chunks = std::vector<uint32_t>(below(kModelChunksMax + 1))};
    for (uint32_t& chunk : m.chunks) chunk = below(kModelChunksMax);
  }
  void fill(Wait& m) { m = {.reason = text(kReasonBytesMax)}; }
  void fill(Fetch& m) {
    m = {.generation = u64(),
         .from = u64(),
         .to = u64(),
         .chunk = below(kModelChunksMax),
         .exact = flag()};
  }
  void fill(Fetched& m) {
    m = {.generation = u64(),
         .from = u64(),
         .publication = u64(),
         .key_frame = flag(),
         .chunk = below(kModelChunksMax),
         .chunk_count = below(kModelChunksMax + 1),
         .checksum = u32(),
         .payload = payload(),
         .statistics = reals()};
  }
  void fill(Heartbeat& m) {
    m = {.incarnation = u64(), .clock = u64(), .round = u64(), .step_us = u32(), .resting = flag()};
  }
  void fill(HeartbeatReply& m) {
    m = {.generation = u64(), .publication = u64(), .round = u64(), .finish = flag()};
  }

  void fill(Enrol& m) {
    m = {.secret = payload(), .public_key = payload()};
    m.secret.resize(std::min(m.secret.size(), kSecretBytesMax));
    m.public_key.resize(std::min(m.public_key.size(), kPublicKeyBytesMax));
  }
  void fill(Enrolled& m) {
    m = {.authority = text(std::min(payload_bytes_max_, kCertificateBytesMax)),
         .certificate = text(std::min(payload_bytes_max_, kCertificateBytesMax)),
         .name = text(kNameBytesMax),
         .port = below(UINT16_MAX + 1)};
  }

  Random random_;
  size_t payload_bytes_max_;
};

}  // namespace paceline::test
