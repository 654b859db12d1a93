#include <messages_generated.h>

#include <bit>
#include <cstring>

#include "runtime/base/limits.h"
#include "runtime/wire/message_bounds.h"
#include "runtime/wire/messages.h"

namespace paceline {

namespace {

// The verifier's own defaults, 64 and 1,000,000, let a small message cost a lot. Ours needs an
// envelope, a body, a directive or kEvaluationsPerExchangeMax evaluations.
constexpr flatbuffers::uoffset_t kDepthMax = 8;
constexpr flatbuffers::uoffset_t kTablesMax = 64;

// Below root offset, identifier and an empty table nothing can be a message, and the verifier may
// only look at the identifier after this check.
constexpr size_t kMessageBytesMin = 16;

// Numbers are read in place, at their natural alignment within the message.
constexpr size_t kAlignment = 8;

std::string text(const flatbuffers::String* field) { return field ? field->str() : std::string(); }

Bytes bytes(const flatbuffers::Vector<uint8_t>* field) {
  if (!field) return {};
  const auto* begin = reinterpret_cast<const std::byte*>(field->data());
  return Bytes(begin, begin + field->size());
}

std::vector<float> floats(const flatbuffers::Vector<uint32_t>* bits) {
  std::vector<float> values;
  if (bits)
    for (const uint32_t value : *bits) values.push_back(std::bit_cast<float>(value));
  return values;
}

Result<Directive> read(const wire::Directive* t) {
  if (!t) return fail(Code::kCorrupt, "directive is missing");
  return Directive{.tau = t->tau(),
                   .steps_cap = t->steps_cap(),
                   .codec_up = t->codec_up(),
                   .codec_down = t->codec_down(),
                   .rate = std::bit_cast<float>(t->rate_bits()),
                   .keep = std::bit_cast<float>(t->keep_bits()),
                   .elastic = t->elastic(),
                   .evaluate = t->evaluate(),
                   .finish = t->finish(),
                   .reason = text(t->reason())};
}

Result<Message> read(const wire::Hello& t) {
  return Hello{.name = text(t.name()),
               .incarnation = t.incarnation(),
               .protocol_min = t.protocol_min(),
               .protocol_max = t.protocol_max(),
               .build = text(t.build()),
               .generation = t.generation(),
               .publication = t.publication(),
               .published_checksum = t.published_checksum(),
               .last_settled = t.last_settled(),
               .pending_sequence = t.pending_sequence(),
               .training_rows = t.training_rows(),
               .held_out_rows = t.held_out_rows(),
               .feature_count = t.feature_count(),
               .class_count = t.class_count()};
}

Result<Message> read(const wire::Welcome& t) {
  PACELINE_ASSIGN(Directive directive, read(t.directive()));
  return Welcome{.session = t.session(),
                 .worker_id = t.worker_id(),
                 .protocol = t.protocol(),
                 .generation = t.generation(),
                 .publication = t.publication(),
                 .checksum = t.checksum(),
                 .last_settled = t.last_settled(),
                 .verdict = static_cast<Verdict>(t.verdict()),
                 .held = t.held(),
                 .next_sequence = t.next_sequence(),
                 .round = t.round(),
                 .seed = t.seed(),
                 .heartbeat_ms = t.heartbeat_ms(),
                 .exchange_timeout_ms = t.exchange_timeout_ms(),
                 .run = text(t.run()),
                 .directive = std::move(directive),
                 .start_checksum = t.start_checksum()};
}

Result<Message> read(const wire::Push& t) {
  return Push{.incarnation = t.incarnation(),
              .sequence = t.sequence(),
              .update_checksum = t.update_checksum(),
              .chunk = t.chunk(),
              .chunk_count = t.chunk_count(),
              .payload = bytes(t.payload())};
}

Result<Message> read(const wire::Got& t) {
  return Got{.sequence = t.sequence(), .chunk = t.chunk()};
}

Result<Message> read(const wire::Ready& t) {
  return Ready{.incarnation = t.incarnation(), .round = t.round(), .steps = t.steps()};
}

Result<Message> read(const wire::Close& t) { return Close{.round = t.round()}; }

Result<Message> read(const wire::Exchange& t) {
  Exchange exchange{.incarnation = t.incarnation(),
                    .sequence = t.sequence(),
                    .update_checksum = t.update_checksum(),
                    .chunk_count = t.chunk_count(),
                    .generation = t.generation(),
                    .base_publication = t.base_publication(),
                    .base_checksum = t.base_checksum(),
                    .round = t.round(),
                    .steps = t.steps(),
                    .clock = t.clock(),
                    .step_us = t.step_us(),
                    .waited_us = t.waited_us(),
                    .training_loss = std::bit_cast<float>(t.training_loss_bits()),
                    .leaving = t.leaving(),
                    .evaluations = {},
                    .push_us = t.push_us(),
                    .fetch_us = t.fetch_us(),
                    .update_norm = std::bit_cast<float>(t.update_norm_bits()),
                    .coded_norm = std::bit_cast<float>(t.coded_norm_bits()),
                    .residual_norm = std::bit_cast<float>(t.residual_norm_bits()),
                    .statistic_rows = t.statistic_rows(),
                    .statistics = floats(t.statistic_bits())};
  if (const auto* evaluations = t.evaluations())
    for (const wire::Evaluation* e : *evaluations)
      exchange.evaluations.push_back({.publication = e->publication(),
                                      .rows = e->rows(),
                                      .correct = e->correct(),
                                      .loss_fixed16 = e->loss_fixed16()});
  return exchange;
}

Result<Message> read(const wire::Granted& t) {
  PACELINE_ASSIGN(Directive directive, read(t.directive()));
  return Granted{.sequence = t.sequence(),
                 .generation = t.generation(),
                 .publication = t.publication(),
                 .version = t.version(),
                 .checksum = t.checksum(),
                 .round = t.round(),
                 .durable = t.durable(),
                 .directive = std::move(directive)};
}

Result<Message> read(const wire::Refused& t) {
  return Refused{.sequence = t.sequence(),
                 .refusal = static_cast<RefusalClass>(t.refusal()),
                 .reason = text(t.reason()),
                 .fix = text(t.fix())};
}

Result<Message> read(const wire::Missing& t) {
  Missing missing{.sequence = t.sequence(), .chunks = {}};
  if (const auto* chunks = t.chunks()) missing.chunks.assign(chunks->begin(), chunks->end());
  return missing;
}

Result<Message> read(const wire::Wait& t) { return Wait{.reason = text(t.reason())}; }

Result<Message> read(const wire::Fetch& t) {
  return Fetch{.generation = t.generation(),
               .from = t.from(),
               .to = t.to(),
               .chunk = t.chunk(),
               .exact = t.exact()};
}

Result<Message> read(const wire::Fetched& t) {
  return Fetched{.generation = t.generation(),
                 .from = t.from(),
                 .publication = t.publication(),
                 .key_frame = t.key_frame(),
                 .chunk = t.chunk(),
                 .chunk_count = t.chunk_count(),
                 .checksum = t.checksum(),
                 .payload = bytes(t.payload()),
                 .statistics = floats(t.statistic_bits())};
}

Result<Message> read(const wire::Heartbeat& t) {
  return Heartbeat{.incarnation = t.incarnation(),
                   .clock = t.clock(),
                   .round = t.round(),
                   .step_us = t.step_us(),
                   .resting = t.resting()};
}

Result<Message> read(const wire::HeartbeatReply& t) {
  return HeartbeatReply{.generation = t.generation(),
                        .publication = t.publication(),
                        .round = t.round(),
                        .finish = t.finish()};
}

Result<Message> read(const wire::Enrol& t) {
  return Enrol{.secret = bytes(t.secret()), .public_key = bytes(t.public_key())};
}

Result<Message> read(const wire::Enrolled& t) {
  return Enrolled{.authority = text(t.authority()),
                  .certificate = text(t.certificate()),
                  .name = text(t.name()),
                  .port = t.port()};
}

// The verifier lets a tag without a body pass, and any tag that it doesn't know.
template <class T>
Result<Message> read_body(const wire::Envelope& envelope) {
  const T* body = envelope.body_as<T>();
  if (!body) return fail(Code::kCorrupt, "Envelope.body is missing");
  return read(*body);
}

Result<Message> read_message(const wire::Envelope& envelope) {
  switch (envelope.body_type()) {
    case wire::Body::Hello:
      return read_body<wire::Hello>(envelope);
    case wire::Body::Welcome:
      return read_body<wire::Welcome>(envelope);
    case wire::Body::Push:
      return read_body<wire::Push>(envelope);
    case wire::Body::Got:
      return read_body<wire::Got>(envelope);
    case wire::Body::Ready:
      return read_body<wire::Ready>(envelope);
    case wire::Body::Close:
      return read_body<wire::Close>(envelope);
    case wire::Body::Exchange:
      return read_body<wire::Exchange>(envelope);
    case wire::Body::Granted:
      return read_body<wire::Granted>(envelope);
    case wire::Body::Refused:
      return read_body<wire::Refused>(envelope);
    case wire::Body::Missing:
      return read_body<wire::Missing>(envelope);
    case wire::Body::Wait:
      return read_body<wire::Wait>(envelope);
    case wire::Body::Fetch:
      return read_body<wire::Fetch>(envelope);
    case wire::Body::Fetched:
      return read_body<wire::Fetched>(envelope);
    case wire::Body::Heartbeat:
      return read_body<wire::Heartbeat>(envelope);
    case wire::Body::HeartbeatReply:
      return read_body<wire::HeartbeatReply>(envelope);
    case wire::Body::Enrol:
      return read_body<wire::Enrol>(envelope);
    case wire::Body::Enrolled:
      return read_body<wire::Enrolled>(envelope);
    case wire::Body::NONE:
      break;
  }
  return fail(Code::kCorrupt, "Envelope.body has the unknown type %u",
              static_cast<unsigned>(envelope.body_type()));
}

Result<Envelope> decode_aligned(ByteSpan message) {
  const auto* raw = reinterpret_cast<const uint8_t*>(message.data());
  if (!flatbuffers::BufferHasIdentifier(raw, wire::EnvelopeIdentifier()))
    return fail(Code::kCorrupt, "message of %zu bytes is not marked \"%s\"", message.size(),
                wire::EnvelopeIdentifier());
  flatbuffers::Verifier verifier(raw, message.size(), kDepthMax, kTablesMax);
  if (!wire::VerifyEnvelopeBuffer(verifier))
    return fail(Code::kCorrupt, "message of %zu bytes has offsets or lengths that don't fit",
                message.size());
  const wire::Envelope& envelope = *wire::GetEnvelope(raw);
  PACELINE_ASSIGN(Message body, read_message(envelope));
  PACELINE_TRY(within_bounds(body));
  return Envelope{.session = envelope.session(), .message = std::move(body)};
}

}  // namespace

Result<Envelope> decode(ByteSpan message) {
  if (message.size() < kMessageBytesMin || message.size() > kMessageBytesMax)
    return fail(Code::kCorrupt, "message of %zu bytes, must be %zu to %zu", message.size(),
                kMessageBytesMin, kMessageBytesMax);
  if (reinterpret_cast<uintptr_t>(message.data()) % kAlignment == 0) return decode_aligned(message);
  // operator new aligns for every number that a message holds.
  const Bytes aligned(message.begin(), message.end());
  return decode_aligned(aligned);
}

}  // namespace paceline
