#include <messages_generated.h>

#include <bit>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"
#include "runtime/wire/message_bounds.h"
#include "runtime/wire/messages.h"

namespace paceline {

namespace {

using Builder = flatbuffers::FlatBufferBuilder;
template <class T>
using Offset = flatbuffers::Offset<T>;

Offset<flatbuffers::Vector<uint8_t>> add(Builder& builder, const Bytes& bytes) {
  return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Not there at all where there are none.
Offset<flatbuffers::Vector<uint32_t>> add_bits(Builder& builder, const std::vector<float>& floats) {
  if (floats.empty()) return 0;
  std::vector<uint32_t> bits;
  for (const float value : floats) bits.push_back(std::bit_cast<uint32_t>(value));
  return builder.CreateVector(bits);
}

Offset<wire::Directive> add(Builder& builder, const Directive& m) {
  return wire::CreateDirective(builder, m.tau, m.steps_cap, m.codec_up, m.codec_down,
                               std::bit_cast<uint32_t>(m.rate), std::bit_cast<uint32_t>(m.keep),
                               m.elastic, m.evaluate, m.finish, builder.CreateString(m.reason));
}

// Strings are written one statement each: the order of arguments is the compiler's choice, and
// bytes must not be.
Offset<wire::Hello> add(Builder& builder, const Hello& m) {
  const auto name = builder.CreateString(m.name);
  const auto build = builder.CreateString(m.build);
  return wire::CreateHello(builder, name, m.incarnation, m.protocol_min, m.protocol_max, build,
                           m.generation, m.publication, m.published_checksum, m.last_settled,
                           m.pending_sequence, m.training_rows, m.held_out_rows, m.feature_count,
                           m.class_count);
}

Offset<wire::Welcome> add(Builder& builder, const Welcome& m) {
  const auto run = builder.CreateString(m.run);
  const auto directive = add(builder, m.directive);
  return wire::CreateWelcome(
      builder, m.session, m.worker_id, m.protocol, m.generation, m.publication, m.checksum,
      m.last_settled, static_cast<wire::Verdict>(m.verdict), m.held, m.next_sequence, m.round,
      m.seed, m.heartbeat_ms, m.exchange_timeout_ms, run, directive, m.start_checksum);
}

Offset<wire::Push> add(Builder& builder, const Push& m) {
  return wire::CreatePush(builder, m.incarnation, m.sequence, m.update_checksum, m.chunk,
                          m.chunk_count, add(builder, m.payload));
}

Offset<wire::Got> add(Builder& builder, const Got& m) {
  return wire::CreateGot(builder, m.sequence, m.chunk);
}

Offset<wire::Ready> add(Builder& builder, const Ready& m) {
  return wire::CreateReady(builder, m.incarnation, m.round, m.steps);
}

Offset<wire::Close> add(Builder& builder, const Close& m) {
  return wire::CreateClose(builder, m.round);
}

Offset<wire::Exchange> add(Builder& builder, const Exchange& m) {
  std::vector<Offset<wire::Evaluation>> evaluations;
  for (const Evaluation& e : m.evaluations)
    evaluations.push_back(
        wire::CreateEvaluation(builder, e.publication, e.rows, e.correct, e.loss_fixed16));
  const auto evaluation_list = builder.CreateVector(evaluations);
  const auto statistics = add_bits(builder, m.statistics);
  return wire::CreateExchange(
      builder, m.incarnation, m.sequence, m.update_checksum, m.chunk_count, m.generation,
      m.base_publication, m.base_checksum, m.round, m.steps, m.clock, m.step_us, m.waited_us,
      std::bit_cast<uint32_t>(m.training_loss), m.leaving, evaluation_list, m.push_us, m.fetch_us,
      std::bit_cast<uint32_t>(m.update_norm), std::bit_cast<uint32_t>(m.coded_norm),
      std::bit_cast<uint32_t>(m.residual_norm), m.statistic_rows, statistics);
}

Offset<wire::Granted> add(Builder& builder, const Granted& m) {
  return wire::CreateGranted(builder, m.sequence, m.generation, m.publication, m.version,
                             m.checksum, m.round, m.durable, add(builder, m.directive));
}

Offset<wire::Refused> add(Builder& builder, const Refused& m) {
  const auto reason = builder.CreateString(m.reason);
  const auto fix = builder.CreateString(m.fix);
  return wire::CreateRefused(builder, m.sequence, static_cast<wire::RefusalClass>(m.refusal),
                             reason, fix);
}

Offset<wire::Missing> add(Builder& builder, const Missing& m) {
  return wire::CreateMissing(builder, m.sequence, builder.CreateVector(m.chunks));
}

Offset<wire::Wait> add(Builder& builder, const Wait& m) {
  return wire::CreateWait(builder, builder.CreateString(m.reason));
}

Offset<wire::Fetch> add(Builder& builder, const Fetch& m) {
  return wire::CreateFetch(builder, m.generation, m.from, m.to, m.chunk, m.exact);
}

Offset<wire::Fetched> add(Builder& builder, const Fetched& m) {
  const auto payload = add(builder, m.payload);
  const auto statistics = add_bits(builder, m.statistics);
  return wire::CreateFetched(builder, m.generation, m.from, m.publication, m.key_frame, m.chunk,
                             m.chunk_count, m.checksum, payload, statistics);
}

Offset<wire::Heartbeat> add(Builder& builder, const Heartbeat& m) {
  return wire::CreateHeartbeat(builder, m.incarnation, m.clock, m.round, m.step_us, m.resting);
}

Offset<wire::HeartbeatReply> add(Builder& builder, const HeartbeatReply& m) {
  return wire::CreateHeartbeatReply(builder, m.generation, m.publication, m.round, m.finish);
}

Offset<wire::Enrol> add(Builder& builder, const Enrol& m) {
  const auto secret = add(builder, m.secret);
  const auto public_key = add(builder, m.public_key);
  return wire::CreateEnrol(builder, secret, public_key);
}

Offset<wire::Enrolled> add(Builder& builder, const Enrolled& m) {
  const auto authority = builder.CreateString(m.authority);
  const auto certificate = builder.CreateString(m.certificate);
  const auto name = builder.CreateString(m.name);
  return wire::CreateEnrolled(builder, authority, certificate, name, m.port);
}

template <class T>
wire::Body tag_of(Offset<T>) {
  return wire::BodyTraits<T>::enum_value;
}

// Room for the payload from the start, so that it is not copied again and again while it grows.
size_t expected_bytes(const Message& message) {
  constexpr size_t kWithoutPayload = 512;
  if (const auto* push = std::get_if<Push>(&message)) return push->payload.size() + kWithoutPayload;
  if (const auto* fetched = std::get_if<Fetched>(&message))
    return fetched->payload.size() + fetched->statistics.size() * sizeof(float) + kWithoutPayload;
  return kWithoutPayload;
}

}  // namespace

// decode() and message_name() rely on it: the tag is the variant's index and one.
static_assert(static_cast<size_t>(wire::Body::MAX) == std::variant_size_v<Message>);

Bytes encode(const Envelope& envelope) {
  PACELINE_CHECK(within_bounds(envelope.message).ok());
  Builder builder(expected_bytes(envelope.message));
  wire::Body tag = wire::Body::NONE;
  const Offset<void> body = std::visit(
      [&](const auto& message) {
        const auto offset = add(builder, message);
        tag = tag_of(offset);
        return offset.Union();
      },
      envelope.message);
  PACELINE_CHECK(static_cast<size_t>(tag) == envelope.message.index() + 1);
  wire::FinishEnvelopeBuffer(builder, wire::CreateEnvelope(builder, envelope.session, tag, body));
  PACELINE_CHECK(builder.GetSize() <= kMessageBytesMax);
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return Bytes(begin, begin + builder.GetSize());
}

}  // namespace paceline
