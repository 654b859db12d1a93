// Rounds close, the model moves, workers go on.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {
constexpr size_t kRoundTimesKept = 9;  // their median: a start or a hiccup is one of them
}  // namespace

std::vector<Member*> ServerCore::counted_members() {
  std::vector<Member*> counted;
  for (Member& member : members_)
    if (member.counted) counted.push_back(&member);
  return counted;
}

PaceRow ServerCore::pace_row(const Member& member) const {
  return {member.id, member.clock, member.ready, member.held.has_value()};
}

std::vector<PaceRow> ServerCore::pace_rows() const {
  std::vector<PaceRow> rows;
  for (const Member& member : members_)
    if (member.counted) rows.push_back(pace_row(member));
  return rows;
}

void ServerCore::advance(TimeUs now) {
  const bool rounds = pace_->apply() == Apply::kHold;
  std::vector<PaceRow> rows = pace_rows();
  // Between rounds, and while there are too few for a round, whoever is eligible becomes a member.
  if (!rounds || rows.size() < options_.min_workers) {
    open_membership(now);
    rows = pace_rows();
  }
  const bool enough = !rows.empty() && rows.size() >= options_.min_workers;
  if (rounds && enough) {
    const bool any = std::ranges::any_of(rows, [](const PaceRow& r) { return r.held || r.ready; });
    if (any && round_deadline_ == kNever)
      round_deadline_ = now + from_ms(options_.exchange_deadline_ms);
    if (pace_->elastic() && !cut_called_ && pace_->cuts(rows)) {
      cut_called_ = true;
      round_deadline_ = now + from_ms(options_.exchange_deadline_ms);
      for (Member& member : members_) {
        if (member.ready_request.token == 0) continue;
        reply(member.ready_request.token, Close{round_}, member.session);
        member.ready_request = {};
      }
    }
    if (pace_->closes(rows)) close_round(now);
  }
  if (!rounds) {
    for (Member& member : members_) {
      if (!member.held || !enough) continue;
      Member* one[] = {&member};
      apply_updates(one, divisor_of(counted_members()), 1.0f);
    }
    finish_evaluations(false);
    publish_if_due(now);
  }
  release();
}

float ServerCore::divisor_of(std::span<Member* const> members) const {
  uint64_t sum = 0;
  for (const Member* member : members) sum += static_cast<uint64_t>(member->weight * 0x1p19f);
  return static_cast<float>(sum) * 0x1p-19f;
}

void ServerCore::apply_updates(std::span<Member* const> contributors, float divisor, float keep) {
  bool any = false;
  std::ranges::fill(sum_, 0.0f);
  for (uint32_t chunk = 0; chunk < layout().chunk_count(); ++chunk) {
    std::vector<WeightedPayload> payloads;
    for (const Member* member : contributors)
      if (!member->held->views.empty())
        payloads.push_back({member->held->views[chunk], member->weight});
    if (payloads.empty()) break;
    any = true;
    sum_payloads(layout(), chunk, payloads, options_.run.training.seed, sum_);
  }
  if (any && divisor > 0) apply_mean(sum_, divisor, keep, master_);
  ++version_;
  for (Member* member : contributors) {
    if (observer_ != nullptr) observer_->applied(*member, *member->held);
    // A later one of another life may have been refused meanwhile: what is settled never goes back.
    if (member->held->sequence > member->last_settled) {
      member->last_settled = member->held->sequence;
      member->verdict = Verdict::kApplied;
    }
    member->held.reset();
    ++applied_since_publication_;
  }
}

void ServerCore::measure_round(std::span<Member* const> contributors, TimeUs now) {
  if (round_opened_at_ != kNever) {
    RoundTimes times;
    for (const Member* member : contributors)
      times.step_us = std::max(times.step_us, static_cast<double>(member->step_us));
    const double rest =
        static_cast<double>(now - round_opened_at_) - times.step_us * directive_.tau;
    times.exchange_us = std::max(rest, 0.0);
    round_times_.push_back(times);
    if (round_times_.size() > kRoundTimesKept) round_times_.pop_front();
  }
  round_opened_at_ = now;
}

double ServerCore::typical(double RoundTimes::*part) const {
  std::vector<double> values;
  for (const RoundTimes& times : round_times_) values.push_back(times.*part);
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void ServerCore::close_round(TimeUs now) {
  std::vector<Member*> contributors;
  for (Member& member : members_)
    if (member.held) contributors.push_back(&member);
  measure_round(contributors, now);
  // One that has nothing to add must not make the others' mean smaller.
  std::vector<Member*> weighed = contributors;
  std::erase_if(weighed, [](const Member* member) { return member->held->views.empty(); });
  const float divisor =
      divisor_of(pace_->divisor() == Divisor::kContributors ? weighed : counted_members());
  apply_updates(contributors, divisor, directive_.keep);
  finish_evaluations(true);
  publish(finishing_ ? CodecId::kRaw32 : static_cast<CodecId>(directive_.codec_down));
  last_publication_at_ = now;
  finished_ = finishing_;
  ++round_;
  cut_called_ = false;
  round_deadline_ = kNever;
  for (Member& member : members_) member.ready = false;
  open_membership(now);
  compose_directive();
}

void ServerCore::close_last(TimeUs now) {
  const bool any_held =
      std::ranges::any_of(members_, [](const Member& member) { return member.held.has_value(); });
  if (pace_->apply() == Apply::kHold && any_held) return close_round(now);
  for (Member& member : members_) {
    if (!member.held) continue;
    Member* one[] = {&member};
    const std::vector<Member*> counted = counted_members();
    apply_updates(one, counted.empty() ? divisor_of(one) : divisor_of(counted), 1.0f);
  }
  publish(CodecId::kRaw32);
  finished_ = true;
  compose_directive();
}

void ServerCore::publish(CodecId codec) {
  const RotationKey key{downlink_seed(options_.run.training.seed), publication_ + 1};
  if (Status status = encode_delta(layout(), codec, key, master_, published_, &encoded_);
      !status.ok()) {
    log_error("version %llu is not finite and is dropped: %s",
              static_cast<unsigned long long>(version_), status.message().c_str());
    master_ = published_;
    return;
  }
  Delta delta;
  delta.from = publication_;
  delta.chunks = encoded_.chunks;
  delta.bytes = encoded_.bytes();
  ++publication_;
  applied_since_publication_ = 0;
  checksum_ = model_checksum(published_);
  delta.checksum = checksum_;
  log_debug("publication %llu checksum %08x", static_cast<unsigned long long>(publication_),
            checksum_);
  delta_bytes_ += delta.bytes;
  deltas_.push_back(std::move(delta));
  while (deltas_.size() > kDeltasKeptMax || delta_bytes_ > kDeltaBytesKeptMax) {
    delta_bytes_ -= deltas_.front().bytes;
    deltas_.pop_front();
  }
}

void ServerCore::publish_if_due(TimeUs now) {
  if (applied_since_publication_ == 0 || finished_) return;
  const bool all_new = applied_since_publication_ >= counted_members().size();
  const bool interval_over =
      static_cast<double>(now - last_publication_at_) >= exchange_interval_us_;
  if (!all_new && !interval_over) return;
  if (directive_.keep != 1.0f)
    for (float& value : master_) value *= directive_.keep;
  flush_small(master_);
  publish(static_cast<CodecId>(directive_.codec_down));
  last_publication_at_ = now;
  compose_directive();
}

void ServerCore::release() {
  const std::vector<PaceRow> rows = pace_rows();
  for (Member& member : members_) {
    if (member.exchange.token == 0 || member.held) continue;
    if (!finished_ && !pace_->releases(rows, pace_row(member))) continue;
    grant(member, member.exchange.token);
    member.exchange = {};
  }
}

void ServerCore::grant(Member& member, RequestToken token) {
  Granted granted;
  granted.sequence = member.held ? member.held->sequence : member.last_settled;
  granted.generation = generation_;
  granted.publication = publication_;
  granted.version = version_;
  granted.checksum = checksum_;
  granted.round = round_;
  granted.durable = options_.durable;
  granted.directive = directive_;
  reply(token, std::move(granted), member.session);
}

void ServerCore::compose_directive() {
  FleetFacts facts;
  facts.publication = publication_;
  facts.progress = progress_;
  facts.step_us = typical(&RoundTimes::step_us);
  facts.exchange_us = typical(&RoundTimes::exchange_us);
  for (const Member& member : members_)
    if (member.counted)
      facts.held_out_rows_max = std::max(facts.held_out_rows_max, member.held_out_rows);
  const uint32_t before = directive_.tau;
  directive_ = director_.compose(facts);
  directive_.finish = finished_;
  if (directive_.tau != before)
    log_info("exchange every %u steps: %s", directive_.tau, directive_.reason.c_str());
}

}  // namespace paceline
