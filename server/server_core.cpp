#include "server/server_core.h"

#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"

namespace paceline {

namespace {

constexpr uint32_t kStateMagic = 0x534C4350;  // "PCLS"; for ever
// 2: who has left; 3: how codecs are chosen; 4: what leavers left behind; 5: statistics; 6: how the
// pace is chosen
constexpr uint32_t kStateVersion = 6;

DirectorOptions director_options(const ServerOptions& options) {
  DirectorOptions result;
  result.content.codecs = {options.codec_up, options.codec_down};
  result.content.up_auto = options.codec_up_auto;
  result.content.down_auto = options.codec_down_auto;
  result.content.warmup_publications = options.warmup_publications;
  result.content.sizes = PayloadSizes::of(options.run.model.layout);
  result.rate = options.run.training.rate;
  result.rate_end = options.rate_end;
  result.keep = options.run.training.keep;
  result.dense_end = !options.run.privacy;
  result.batch = options.run.training.batch;
  return result;
}

Status check_aggregation(const ServerOptions& options, AggregationChoice choice, const Pace& pace) {
  if (choice.rule == AggregationRule::kMean) return {};
  if (!pace.has_rounds() || options.pace_auto())
    return fail(Code::kInvalidArgument,
                "aggregate %s compares the updates of a round, which pace %s has not always; take "
                "pace compat, bsp or backup, or aggregate mean",
                options.aggregate.c_str(), options.pace.c_str());
  const CodecId up = options.codec_up;
  const bool signs_or_entries = up == CodecId::kS1 || up == CodecId::kS1r || up == CodecId::kTk1 ||
                                up == CodecId::kTk5 || options.codec_up_auto;
  if (choice.compares_coordinates() && signs_or_entries)
    return fail(Code::kInvalidArgument,
                "aggregate %s compares single coordinates, of which codec_up %s says too little; "
                "take codec_up q8, or aggregate krum or clip",
                options.aggregate.c_str(), options.codec_up_auto ? "auto" : codec_info(up).name);
  return {};
}

// Private boards say nothing of how well they do, and their updates are mostly noise.
Status check_private(const ServerOptions& options) {
  if (!options.run.privacy) return {};
  if (!options.freq.starts_with("fixed"))
    return fail(Code::kInvalidArgument,
                "freq %s follows evaluations or updates, which [privacy] keeps back or hides in "
                "noise; give freq = \"fixed:16\"",
                options.freq.c_str());
  for (const char* pace : {"auto", "dsp", "lsp"})
    if (options.pace.starts_with(pace))
      return fail(Code::kInvalidArgument,
                  "pace %s follows the boards' training loss, which [privacy] keeps back; give "
                  "pace = \"compat\", \"ssp:3\" or another",
                  options.pace.c_str());
  return {};
}

}  // namespace

Result<std::unique_ptr<ServerCore>> ServerCore::make(ServerOptions options,
                                                     std::unique_ptr<Freq> freq) {
  PACELINE_ASSIGN(std::unique_ptr<Pace> pace, make_pace(options.pace));
  if (!freq) {
    PACELINE_ASSIGN(freq, make_freq(options.freq));
  }
  PACELINE_TRY(check_codec_down(options.codec_down));
  PACELINE_ASSIGN(const AggregationChoice aggregation, parse_aggregation(options.aggregate));
  PACELINE_TRY(check_aggregation(options, aggregation, *pace));
  PACELINE_TRY(check_private(options));
  if (!options.start.empty() && options.start.size() != options.run.model.layout.element_count())
    return fail(Code::kInvalidArgument, "a start of %zu values for a model of %zu",
                options.start.size(), options.run.model.layout.element_count());
  if (options.min_workers < 1 || options.min_workers > kWorkersMax)
    return fail(Code::kInvalidArgument, "min_workers has to be 1 to %u", kWorkersMax);
  return std::unique_ptr<ServerCore>(
      new ServerCore(std::move(options), aggregation, std::move(pace), std::move(freq)));
}

ServerCore::ServerCore(ServerOptions options, AggregationChoice aggregation,
                       std::unique_ptr<Pace> pace, std::unique_ptr<Freq> freq)
    : options_(std::move(options)),
      pace_(std::move(pace)),
      pace_name_(options_.pace_auto() ? kPaceCandidates[0].name : options_.pace),
      director_(director_options(options_), std::move(freq)),
      session_numbers_(options_.session_seed, 1),
      run_checksum_(crc32c(std::as_bytes(std::span(options_.run_text)))),
      statistics_(layout()),
      comparison_(layout(), options_.run.training.seed),
      aggregator_(aggregation) {
  const size_t elements = static_cast<size_t>(layout().element_count());
  master_ = std::exchange(options_.start, {});
  if (master_.empty()) {
    master_.assign(elements, 0.0f);
    init_parameters(options_.run.model, options_.run.training.seed, master_);
  }
  flush_small(master_);
  published_ = master_;
  sum_.assign(elements, 0.0f);
  checksum_ = start_checksum_ = model_checksum(published_);
  for (const std::string& name : options_.fleet) member_named(name);
  compose_directive();
}

void ServerCore::reply(RequestToken token, Message message, uint64_t session) {
  if (token != 0) replies_.push_back({token, {session, std::move(message)}});
}

void ServerCore::park(Parked& place, RequestToken token, uint64_t session, TimeUs now) {
  // One parked request of each kind: the newer one takes the place of the older.
  if (place.token != 0) reply(place.token, Wait{"a newer request took its place"}, session);
  place = {token, now};
}

void ServerCore::on_request(RequestToken token, const std::string& peer_identity,
                            const Envelope& envelope, TimeUs now) {
  const Message& message = envelope.message;
  if (const auto* hello = std::get_if<Hello>(&message)) {
    on_hello(token, peer_identity, *hello, now);
  } else if (Member* member = member_of(envelope.session);
             member != nullptr && (peer_identity.empty() || peer_identity == member->name)) {
    member->last_seen = now;
    member->unrecorded = true;
    if (const auto* push = std::get_if<Push>(&message)) {
      on_push(*member, token, *push);
    } else if (const auto* ready = std::get_if<Ready>(&message)) {
      on_ready(*member, token, *ready, now);
    } else if (const auto* exchange = std::get_if<Exchange>(&message)) {
      on_exchange(*member, token, *exchange, now);
    } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
      on_fetch(*member, token, *fetch, now);
    } else if (const auto* beat = std::get_if<Heartbeat>(&message)) {
      on_heartbeat(*member, token, *beat, now);
    } else {
      reply(token,
            Refused{0, RefusalClass::kNotAllowed,
                    format_text("%s is not a request", message_name(message)),
                    "bring worker and server to one version"},
            envelope.session);
    }
  } else {
    reply(token,
          Refused{0, RefusalClass::kStaleSession, "this session is not known here",
                  "say hello again"},
          envelope.session);
  }
  advance(now);
}

void ServerCore::on_timer(TimeUs now) {
  const TimeUs patience = from_ms(options_.exchange_deadline_ms) / 2;
  std::string reason;
  for (Member& member : members_) {
    for (Parked* parked : {&member.exchange, &member.ready_request}) {
      if (parked->token == 0 || now - parked->since < patience) continue;
      if (reason.empty()) reason = waiting_reason(now);
      reply(parked->token, Wait{reason}, member.session);
      *parked = {};
    }
    if (member.counted && !member.held && !alive(member, now)) uncount(member, "not heard of");
  }
  if (now >= round_deadline_) {
    round_deadline_ = kNever;
    for (Member& member : members_)
      if (member.counted && !member.held && !(member.ready && !cut_called_))
        uncount(member, "missed the deadline");
  }
  advance(now);
}

TimeUs ServerCore::next_timer() const {
  const TimeUs patience = from_ms(options_.exchange_deadline_ms) / 2;
  TimeUs next = round_deadline_;
  for (const Member& member : members_) {
    if (member.exchange.token != 0) next = std::min(next, member.exchange.since + patience);
    if (member.ready_request.token != 0)
      next = std::min(next, member.ready_request.since + patience);
    if (member.counted && !member.held)
      next = std::min(next, member.last_seen + 3 * from_ms(options_.heartbeat_ms) + 1);
  }
  return next;
}

uint64_t ServerCore::rounds_done() const {
  return (pace_->has_rounds() ? round_ : publication_) - 1;
}

void ServerCore::finish(TimeUs now) {
  if (finishing_) return;
  finishing_ = true;
  log_info("ending the run at the next cut");
  if (!pace_->has_rounds() || counted_members().empty()) close_last(now);
  advance(now);
}

bool ServerCore::all_gone(TimeUs now) const {
  return finished_ && std::ranges::all_of(members_, [&](const Member& member) {
           if (member.session == 0) return !member.awaited;
           return member.left || !alive(member, now) || member.fetched_publication == publication_;
         });
}

Bytes ServerCore::save() const {
  ByteWriter out;
  out.put(kStateMagic);
  out.put(kStateVersion);
  out.put(run_checksum_);
  out.put(generation_);
  out.put(publication_);
  out.put(version_);
  out.put(round_);
  out.put(epoch_);
  out.put(progress_);
  out.put(evaluation_count_);
  out.put(uint64_t{master_.size()});
  out.put_bytes(std::as_bytes(std::span(master_)));
  out.put_bytes(std::as_bytes(std::span(published_)));
  statistics_.save(&out);
  out.put(static_cast<uint32_t>(members_.size()));
  for (const Member& member : members_) put_member(&out, member);
  director_.save(&out);
  return out.take();
}

Status ServerCore::load(ByteSpan state) {
  ByteReader in(state);
  PACELINE_ASSIGN(const uint32_t magic, in.get<uint32_t>());
  PACELINE_ASSIGN(const uint32_t version, in.get<uint32_t>());
  if (magic != kStateMagic || version != kStateVersion)
    return fail(Code::kCorrupt, "not a server state of version %u", kStateVersion);
  PACELINE_ASSIGN(const uint64_t run, in.get<uint64_t>());
  if (run != run_checksum_)
    return fail(Code::kInvalidArgument,
                "it belongs to a run with another description; give another --state folder");
  PACELINE_ASSIGN(generation_, in.get<uint64_t>());
  PACELINE_ASSIGN(publication_, in.get<uint64_t>());
  PACELINE_ASSIGN(version_, in.get<uint64_t>());
  PACELINE_ASSIGN(round_, in.get<uint64_t>());
  PACELINE_ASSIGN(epoch_, in.get<uint64_t>());
  PACELINE_ASSIGN(progress_, in.get<double>());
  PACELINE_ASSIGN(evaluation_count_, in.get<uint64_t>());
  PACELINE_ASSIGN(const uint64_t elements, in.get<uint64_t>());
  if (elements != layout().element_count())
    return fail(Code::kCorrupt, "%llu parameters, the model has %llu",
                static_cast<unsigned long long>(elements),
                static_cast<unsigned long long>(layout().element_count()));
  for (std::vector<float>* flat : {&master_, &published_}) {
    PACELINE_ASSIGN(ByteSpan raw, in.get_bytes(flat->size() * sizeof(float)));
    std::memcpy(flat->data(), raw.data(), raw.size());
  }
  PACELINE_TRY(statistics_.load(&in));
  PACELINE_ASSIGN(const uint32_t count, in.get<uint32_t>());
  if (count > kWorkersMax) return fail(Code::kCorrupt, "%u workers", count);
  for (uint32_t i = 0; i < count; ++i) PACELINE_TRY(load_member(&in, i));
  PACELINE_TRY(director_.restore(&in));
  checksum_ = start_checksum_ = model_checksum(published_);
  published_version_ = version_;
  deltas_.clear();
  bare_deltas_ = delta_bytes_ = 0;
  key_frames_.clear();
  return {};
}

}  // namespace paceline
