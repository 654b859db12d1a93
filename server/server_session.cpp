// Sessions and membership: who is there, who counts, with what weight.
#include <algorithm>

#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {

constexpr double kRowsCapFactor = 10;  // of the median: a board can't claim the whole fleet
// Who asks for so long for a name that is at work has not just been started again.
constexpr TimeUs kRivalUs = from_ms(60'000);

}  // namespace

Refused refusal_of(const Status& status) {
  const std::string& text = status.message();
  const size_t split = text.find("; ");
  return {.sequence = 0,
          .refusal = RefusalClass::kNotAllowed,
          .reason = text.substr(0, std::min(split, kReasonBytesMax)),
          .fix = split == std::string::npos ? "" : text.substr(split + 2, kReasonBytesMax)};
}

namespace {

// Whether it has asked for so long that it is a board of its own.
bool persists(Rival& rival, uint64_t incarnation, TimeUs now) {
  if (rival.incarnation != incarnation || now - rival.last > kRivalUs)
    rival = {.incarnation = incarnation, .since = now};
  rival.last = now;
  return now - rival.since >= kRivalUs;
}

Status copied_card(const std::string& name) {
  return fail(Code::kRefused,
              "two boards work with the key of '%s', which belongs to one; on the server: "
              "edge_server revoke %s, then enrol each under its own name",
              name.c_str(), name.c_str());
}

}  // namespace

Member* ServerCore::member_of(uint64_t session) {
  if (session == 0) return nullptr;
  const auto found = std::ranges::find(members_, session, &Member::session);
  return found == members_.end() ? nullptr : &*found;
}

Member& ServerCore::member_named(const std::string& name) {
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found != members_.end()) return *found;
  Member member;
  member.id = static_cast<uint32_t>(members_.size());
  member.name = name;
  members_.push_back(std::move(member));
  return members_.back();
}

Status ServerCore::admit(const Hello& hello) const {
  if (hello.protocol_max < kProtocolMin || hello.protocol_min > kProtocol)
    return fail(
        Code::kUnsupported,
        "the worker speaks protocol %u to %u, this server %u to %u; install the same version",
        hello.protocol_min, hello.protocol_max, kProtocolMin, kProtocol);
  if (options_.run.privacy && hello.protocol_max < kProtocolPrivate)
    return fail(Code::kUnsupported,
                "this run has [privacy], of which this worker does not know and would send its "
                "updates as they are; install the server's version");
  if (options_.columns_by_name) return {};
  const ModelSpec& model = options_.run.model;
  if (hello.feature_count != model.input_features())
    return fail(
        Code::kRefused,
        "its rows have %u values, the model takes %llu; give the data that the model was made for",
        hello.feature_count, static_cast<unsigned long long>(model.input_features()));
  if (hello.class_count > model.class_count)
    return fail(Code::kRefused,
                "its labels have %u classes, the model has %u; check its label file or column",
                hello.class_count, model.class_count);
  return {};
}

void ServerCore::on_hello(RequestToken token, const std::string& peer_identity, const Hello& hello,
                          TimeUs now) {
  const std::string& name = peer_identity.empty() ? hello.name : peer_identity;
  const auto refused = [&](const Status& status) {
    if (const std::optional<std::string> more = hello_lines_.pass(now))
      log_warning("refused worker '%s': %s%s", name.c_str(), status.message().c_str(),
                  more->c_str());
    reply(token, refusal_of(status), 0);
  };
  if (!peer_identity.empty() && peer_identity != hello.name)
    return refused(fail(Code::kRefused,
                        "its certificate is of '%s' and it calls itself '%s'; start it without "
                        "--name, or let it join under the other name",
                        peer_identity.c_str(), hello.name.c_str()));
  if (name.empty())
    return refused(fail(Code::kRefused, "the worker has no name; start it with --name NAME"));
  const auto known = std::ranges::find(members_, name, &Member::name);
  const bool is_new = known == members_.end();
  if (is_new && members_.size() >= kWorkersMax)
    return refused(
        fail(Code::kRefused, "the fleet is full (%u workers); remove some", kWorkersMax));
  if (Status status = admit(hello); !status.ok()) return refused(status);
  const uint64_t newest = std::max(hello.last_settled, hello.pending_sequence);
  if (is_new ? Member().leaps(newest) : known->leaps(newest))
    return refused(
        fail(Code::kRefused,
             "it says that it is at update %llu, far ahead of what is known here; give it another "
             "--state folder",
             static_cast<unsigned long long>(newest)));

  Member& member = member_named(name);
  member.unrecorded = true;
  if (is_new) must_record_ = true;  // its place in every sum
  const bool new_life = member.incarnation != hello.incarnation;
  const bool at_work = new_life && !member.left && alive(member, now);
  if (at_work && !peer_identity.empty() && persists(member.rival, hello.incarnation, now)) {
    log_error(
        "two boards are at work with the key of '%s': a card was copied, or it was started twice; "
        "neither may go on. edge_server revoke %s, then let each join under its own name",
        name.c_str(), name.c_str());
    member.copied = true;
    cut_off(member, copied_card(name));
  }
  if (member.copied) return refused(copied_card(name));
  if (at_work) {
    // Who is there stays: if newcomers took over, two boards of one name would fight for ever.
    if (const std::optional<std::string> more = hello_lines_.pass(now))
      log_warning("another worker asks for the name '%s'%s", name.c_str(), more->c_str());
    return reply(token,
                 Refused{0, RefusalClass::kStaleSession,
                         format_text("another worker of the name '%s' is at work", name.c_str()),
                         "give each its own --name; one that was started again is let in when its "
                         "last life has missed three heartbeats"},
                 0);
  }
  if (new_life) {
    // Another life of this worker: uncommitted chunks are gone, a committed update stays.
    member.staging = {};
    // Whoever carries them holds on to requests until they are answered.
    for (Parked* parked : {&member.exchange, &member.ready_request}) {
      reply(parked->token,
            Refused{0, RefusalClass::kStaleSession, "another life of this worker has begun",
                    "say hello again"},
            member.session);
      *parked = {};
    }
    member.ready = false;
    member.incarnation = hello.incarnation;
    member.eligible = false;
    if (!member.held) uncount(member, "started again");
  }
  member.left = false;
  member.awaited = false;
  member.session = session_numbers_.next() | 1;
  member.last_seen = now;
  const bool other_rows = member.training_rows != hello.training_rows;
  member.training_rows = hello.training_rows;
  member.held_out_rows = hello.held_out_rows;
  if (!member.counted) weigh(member);
  member.next_sequence = std::max(member.next_sequence, newest + 1);
  // Without features it has yet to learn which columns the run wants.
  if ((new_life || other_rows) && hello.feature_count > 0)
    log_info("worker %s joins with %llu rows (%s)", name.c_str(),
             static_cast<unsigned long long>(hello.training_rows), hello.build.c_str());

  // A publication that this server has not made: of a history that is gone, or a lie. One worker's
  // word is no reason to take a whole fleet back; this one is given a key frame of ours.
  if (hello.generation == generation_ && hello.publication > publication_)
    if (const std::optional<std::string> more = member.lines.pass(now))
      log_warning("worker %s holds publication %llu, ours is %llu: it takes ours%s", name.c_str(),
                  static_cast<unsigned long long>(hello.publication),
                  static_cast<unsigned long long>(publication_), more->c_str());

  Welcome welcome;
  welcome.session = member.session;
  welcome.worker_id = member.id;
  welcome.protocol = std::min(hello.protocol_max, kProtocol);
  welcome.generation = generation_;
  welcome.publication = publication_;
  welcome.checksum = checksum_;
  welcome.last_settled = member.last_settled;
  welcome.verdict = member.verdict;
  welcome.held = member.held.has_value();
  welcome.next_sequence = member.next_sequence;
  welcome.round = round_;
  welcome.seed = options_.run.training.seed;
  welcome.heartbeat_ms = options_.heartbeat_ms;
  welcome.exchange_timeout_ms = options_.exchange_deadline_ms;
  welcome.run = options_.run_text;
  welcome.directive = directive_;
  if (start_is_near()) welcome.start_checksum = start_checksum_;
  reply(token, std::move(welcome), member.session);
}

void ServerCore::expel(const std::string& name, const Status& why, TimeUs now) {
  log_warning("worker %s is cut off: %s", name.c_str(), why.message().c_str());
  const auto found = std::ranges::find(members_, name, &Member::name);
  if (found == members_.end()) return;
  found->copied = false;
  cut_off(*found, why);
  advance(now);
}

void ServerCore::cut_off(Member& member, const Status& why) {
  for (Parked* parked : {&member.exchange, &member.ready_request}) {
    reply(parked->token, refusal_of(why), member.session);
    *parked = {};
  }
  uncount(member, "may not be here any longer");
  member.session = 0;
  member.staging = {};
  member.held.reset();
  member.ready = false;
  member.left = true;
  member.unrecorded = must_record_ = true;
}

void ServerCore::on_heartbeat(Member& member, RequestToken token, const Heartbeat& beat,
                              TimeUs now) {
  if (beat.clock >= 1) member.eligible = true;
  member.step_us = beat.step_us;
  member.last_seen = now;
  HeartbeatReply answer;
  answer.generation = generation_;
  answer.publication = publication_;
  answer.round = round_;
  answer.finish = finished_;
  reply(token, answer, member.session);
}

bool ServerCore::alive(const Member& member, TimeUs now) const {
  return member.session != 0 && now - member.last_seen <= 3 * from_ms(options_.heartbeat_ms);
}

void ServerCore::uncount(Member& member, const char* why) {
  member.eligible = false;
  if (!member.counted) return;
  member.counted = false;
  log_info("worker %s is out of the round: %s", member.name.c_str(), why);
}

void ServerCore::open_membership(TimeUs now) {
  bool changed = false;
  const auto may_count = [&](const Member& member) {
    return member.eligible && !member.left && alive(member, now) && !member.observes();
  };
  // Whoever comes, or comes back, starts at the slowest member's clock: bounds on a lead are about
  // the present, and a worker that starts again and again gains nothing. With no member left that
  // is the slowest of those who come together. Within a round all began at the same clock, and who
  // holds an update is one further already.
  const auto begun_at = [](const Member& member) {
    return member.clock - std::min<uint64_t>(member.clock, member.held ? 1 : 0);
  };
  const bool alone = table_.empty();
  uint64_t slowest_begun = UINT64_MAX;
  for (const Member& member : members_)
    if (alone ? may_count(member) : member.counted)
      slowest_begun = std::min(slowest_begun, begun_at(member));
  const uint64_t slowest = alone || pace_->has_rounds() ? slowest_begun : table_.smallest_clock();
  for (Member& member : members_) {
    const bool counts = may_count(member);
    if (counts != member.counted) changed = true;
    if (counts && !member.counted) {
      member.clock = member.held ? slowest_begun + 1 : slowest;
      member.unrecorded = true;
    }
    member.counted = counts;
  }
  if (!changed) return;
  ++epoch_;
  std::vector<uint64_t> rows;
  for (const Member& member : members_)
    if (member.counted) rows.push_back(member.training_rows);
  if (rows.empty()) return;
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>((rows.size() - 1) / 2);
  std::nth_element(rows.begin(), middle, rows.end());
  const double cap = kRowsCapFactor * static_cast<double>(*middle);
  rows_full_ = std::min(cap, static_cast<double>(*std::ranges::max_element(rows)));
  for (Member& member : members_) weigh(member);
}

void ServerCore::weigh(Member& member) const {
  // How many rows a board has is no secret of its updates; in a private run it must not become one.
  const double rows = options_.run.privacy ? rows_full_ : static_cast<double>(member.training_rows);
  member.weight = round_weight(rows_full_ > 0 ? std::min(rows, rows_full_) / rows_full_ : 1);
}

std::string ServerCore::waiting_reason(TimeUs now) const {
  uint32_t counted = 0, missing = 0;
  std::string names;
  TimeUs longest = 0;
  for (const Member& member : members_) {
    if (!member.counted) continue;
    ++counted;
    if (member.held || (member.ready && !cut_called_)) continue;
    ++missing;
    if (missing <= 3) names += (missing > 1 ? ", " : "") + member.name;
    longest = std::max(longest, now - member.last_exchange);
  }
  if (counted < options_.min_workers)
    return format_text("%u of %u workers are there", counted, options_.min_workers);
  return format_text("waiting for %u of %u workers: %s%s, %.0f s", missing, counted, names.c_str(),
                     missing > 3 ? " and others" : "", to_seconds(longest));
}

}  // namespace paceline
