// Rounds close, the model moves, workers go on.
#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

std::vector<Member*> ServerCore::counted_members() {
  std::vector<Member*> counted;
  for (Member& member : members_)
    if (member.counted) counted.push_back(&member);
  return counted;
}

PaceRow ServerCore::pace_row(const Member& member) const {
  PaceRow row;
  row.worker_id = member.id;
  row.clock = member.clock;
  row.ready = member.ready;
  row.held = member.held.has_value();
  row.iteration_us = TimeUs{member.step_us} * (member.tau > 0 ? member.tau : directive_.tau);
  if (std::isfinite(member.training_loss)) row.loss = static_cast<double>(member.training_loss);
  return row;
}

void ServerCore::refresh_table(TimeUs now) {
  bool changed = false;
  std::vector<uint32_t> pushed;
  for (const Member& member : members_) {
    if (!member.counted) {
      changed = table_.remove(member.id) || changed;
      continue;
    }
    const PaceRow* before = table_.find(member.id);
    if (before != nullptr && member.clock > before->clock) pushed.push_back(member.id);
    changed = table_.put(pace_row(member)) || changed;
  }
  if (changed) pace_->members_changed(table_, now);
  for (const uint32_t id : pushed) pace_->pushed(table_, *table_.find(id), now);
}

void ServerCore::advance(TimeUs now) {
  if (progress_ >= 0) pace_->progressed(progress_);
  const bool rounds = pace_->has_rounds();
  refresh_table(now);
  // The last round takes who is left.
  const uint32_t needed = finishing_ ? 1 : options_.min_workers;
  // Between rounds, and while there are too few for a round, whoever is eligible becomes a member.
  if (!rounds || table_.size() < needed) {
    open_membership(now);
    refresh_table(now);
  }
  if (finishing_ && !finished_ && table_.empty()) close_last(now);
  const bool enough = !table_.empty() && table_.size() >= needed;
  if (rounds && enough) {
    if (table_.ready_or_held_count() > 0 && round_deadline_ == kNever)
      round_deadline_ = now + from_ms(options_.exchange_deadline_ms);
    if (pace_->elastic() && !cut_called_ && pace_->cuts(table_)) {
      cut_called_ = true;
      round_deadline_ = now + from_ms(options_.exchange_deadline_ms);
      for (Member& member : members_) {
        if (member.ready_request.token == 0) continue;
        reply(member.ready_request.token, Close{round_}, member.session);
        member.ready_request = {};
      }
    }
    if (pace_->closes(table_)) {
      close_round(now);
      refresh_table(now);
      pace_->closed(table_, now);
    }
  }
  if (!rounds) {
    round_deadline_ = kNever;
    if (enough) apply_held(now);
    finish_evaluations(false);
    publish_if_due(now);
  }
  release();
}

// Without rounds: one by one, or those together that make a close.
void ServerCore::apply_held(TimeUs now) {
  std::vector<Member*> held;
  for (Member& member : members_)
    if (member.held) held.push_back(&member);
  if (held.empty()) return;
  const float divisor = divisor_of(counted_members());
  if (pace_->apply() == Apply::kNow) {
    for (Member* member : held) {
      judge_norms({&member, 1});
      if (member->held) apply_updates({&member, 1}, divisor, 1.0f);
    }
    refresh_table(now);
  } else if (pace_->closes(table_)) {
    judge_norms(held);
    std::erase_if(held, [](const Member* member) { return !member->held; });
    apply_updates(held, divisor, 1.0f);
    refresh_table(now);
    pace_->closed(table_, now);
  }
}

// A leaver is granted at once, and its update waits for the next close: at the end of this life
// there is none.
void ServerCore::apply_leavers() {
  std::vector<Member*> leavers;
  for (Member& member : members_)
    if (member.held && (member.left || member.held->granted)) leavers.push_back(&member);
  judge_norms(leavers);
  std::erase_if(leavers, [](const Member* member) { return !member->held; });
  if (leavers.empty()) return;
  std::vector<Member*> weighed = counted_members();
  weighed.insert(weighed.end(), leavers.begin(), leavers.end());
  apply_updates(leavers, divisor_of(weighed), 1.0f);
}

// Its share, less what its staleness and the norm rule take from it; rounded once.
float ServerCore::weight_of(const Member& member) const {
  const uint64_t base = member.held->base_publication;
  uint64_t version = published_version_;
  if (base < publication_ && !deltas_.empty()) {
    const uint64_t oldest = deltas_.front().from;
    version = deltas_[static_cast<size_t>(base > oldest ? base - oldest : 0)].from_version;
  }
  const double factor = static_cast<double>(member.held->clip) *
                        pace_->weight(version_ - std::min(version, version_));
  return factor < 1 ? round_bf16(factor * static_cast<double>(member.weight)) : member.weight;
}

float ServerCore::divisor_of(std::span<Member* const> members) const {
  uint64_t sum = 0;
  for (const Member* member : members) sum += static_cast<uint64_t>(member->weight * 0x1p19f);
  return static_cast<float>(sum) * 0x1p-19f;
}

void ServerCore::gather_payloads(std::span<Member* const> contributors) {
  payloads_.clear();
  for (uint32_t chunk = 0; chunk < layout().chunk_count(); ++chunk)
    for (const Member* member : contributors)
      if (!member->held->views.empty())
        payloads_.push_back({member->held->views[chunk], weight_of(*member)});
}

void ServerCore::apply_updates(std::span<Member* const> contributors, float divisor, float keep) {
  gather_payloads(contributors);
  move_master(divisor, keep);
  note_applied(contributors, divisor, keep);
  settle(contributors);
}

// By what is in payloads_.
void ServerCore::move_master(float divisor, float keep) {
  if (payloads_.empty()) std::ranges::fill(sum_, 0.0f);
  const size_t workers = payloads_.size() / layout().chunk_count();
  for (uint32_t chunk = 0; workers > 0 && chunk < layout().chunk_count(); ++chunk)
    sum_payloads(layout(), chunk, std::span(payloads_).subspan(chunk * workers, workers),
                 options_.run.training.seed, sum_);
  if (workers > 0 && divisor > 0) apply_mean(sum_, divisor, keep, master_);
}

void ServerCore::decay(float keep) {
  if (keep != 1.0f)
    for (float& value : master_) value *= keep;
  flush_small(master_);
}

// By the run's rule instead of by weight; returns the divisor of sum_.
float ServerCore::apply_by_rule(std::span<Member* const> contributors, float keep) {
  gather_payloads(contributors);
  std::vector<Member*> senders(contributors.begin(), contributors.end());
  std::erase_if(senders, [](const Member* member) { return member->held->views.empty(); });
  const float divisor =
      aggregator_.aggregate(layout(), payloads_, senders.size(), options_.run.training.seed, sum_);
  for (const size_t place : aggregator_.left_out()) {
    Member& member = *senders[place];
    ++member.left_out;
    member.held->statistics = {};
    if (const std::optional<std::string> more = member.lines.pass(member.last_seen))
      log_info("worker %s: update %llu is unlike the others' and is left out (%llu of %llu)%s",
               member.name.c_str(), static_cast<unsigned long long>(member.held->sequence),
               static_cast<unsigned long long>(member.left_out),
               static_cast<unsigned long long>(member.exchanges), more->c_str());
  }
  apply_mean(sum_, divisor, keep, master_);
  note_applied(contributors, divisor, keep, true);
  settle(contributors);
  return divisor;
}

void ServerCore::settle(std::span<Member* const> contributors) {
  payloads_.clear();
  ++version_;
  for (Member* member : contributors) {
    if (observer_ != nullptr) observer_->applied(*member, *member->held);
    member->unrecorded = true;
    // A later one of another life may have been refused meanwhile: what is settled never goes back.
    if (member->held->sequence > member->last_settled) {
      member->last_settled = member->held->sequence;
      member->verdict = Verdict::kApplied;
    }
#ifdef PACELINE_CANARY_APPLIES_TWICE
    // A fault for the test of those who look for it.
    if (version_ == 20) continue;
#endif
    member->held.reset();
    ++applied_since_publication_;
  }
}

void ServerCore::close_round(TimeUs now) {
  std::vector<Member*> contributors;
  for (Member& member : members_)
    if (member.held) contributors.push_back(&member);
  measure_round(contributors, now);
  watch_speeds();
  judge_norms(contributors);
  std::erase_if(contributors, [](const Member* member) { return !member->held; });
  // One that has nothing to add must not make the others' mean smaller.
  std::vector<Member*> weighed = contributors;
  std::erase_if(weighed, [](const Member* member) { return member->held->views.empty(); });
  float divisor =
      divisor_of(pace_->divisor() == Divisor::kContributors ? weighed : counted_members());
  const bool compares = director_.wants_rounds();
  if (compares)
    for (const Member* member : weighed)
      comparison_.add(member->id, static_cast<double>(weight_of(*member)), member->held->chunks);
  const CodecId codec = finishing_ ? CodecId::kRaw32 : static_cast<CodecId>(directive_.codec_down);
  const bool plain = aggregator_.choice().rule == AggregationRule::kMean;
  const bool any = !weighed.empty() && divisor > 0;
  if (!any || compares || !plain) {
    if (any && !plain)
      divisor = apply_by_rule(contributors, directive_.keep);
    else
      apply_updates(contributors, divisor, directive_.keep);
    if (compares) observe_round(divisor, now);
    finish_evaluations(true);
    publish(codec);
  } else {
    close_at_once(contributors, divisor, codec);
  }
  last_publication_at_ = now;
  finished_ = finishing_;
  ++round_;
  cut_called_ = false;
  round_deadline_ = kNever;
  for (Member& member : members_) member.ready = false;
  open_membership(now);
  choose_pace(now);
  compose_directive();
}

void ServerCore::observe_round(float divisor, TimeUs now) {
  RoundFacts round = comparison_.finish(sum_, divisor);
  round.tau = directive_.tau;
  round.rate = static_cast<double>(directive_.rate);
  round.step_us = typical(&RoundTimes::step_us);
  round.exchange_us = typical(&RoundTimes::exchange_us);
  if (progress_ > planned_from_.progress && planned_from_.at != kNever)
    round.left_us = (1 - progress_) / (progress_ - planned_from_.progress) *
                    static_cast<double>(now - planned_from_.at);
  if (planned_from_.at == kNever && progress_ >= 0) planned_from_ = {now, progress_};
  director_.observe_round(round);
}

// As apply_updates(), finish_evaluations() and publish(), in one trip through the model.
void ServerCore::close_at_once(std::span<Member* const> contributors, float divisor,
                               CodecId codec) {
  gather_payloads(contributors);
  const RoundClose close{payloads_, options_.run.training.seed, divisor, directive_.keep};
  const Status encoded = close_and_publish(layout(), close, codec, next_delta_key(), master_,
                                           published_, sum_, &encoded_);
  if (!encoded.ok()) master_ = published_;  // it holds anything
  note_applied(contributors, divisor, directive_.keep);
  settle(contributors);
  finish_evaluations(true);
  look_before_publishing();
  if (encoded.ok()) published_.swap(sum_);
  end_publication(codec, encoded);
}

void ServerCore::close_last(TimeUs now) {
  const bool any_held =
      std::ranges::any_of(members_, [](const Member& member) { return member.held.has_value(); });
  if (pace_->has_rounds() && any_held) return close_round(now);
  for (Member& member : members_) {
    if (!member.held) continue;
    Member* one[] = {&member};
    judge_norms(one);
    if (!member.held) continue;
    const std::vector<Member*> counted = counted_members();
    apply_updates(one, counted.empty() ? divisor_of(one) : divisor_of(counted), 1.0f);
  }
  publish(CodecId::kRaw32);
  finished_ = true;
  compose_directive();
}

RotationKey ServerCore::next_delta_key() const {
  return {downlink_seed(options_.run.training.seed), publication_ + 1};
}

void ServerCore::publish(CodecId codec) {
  look_before_publishing();
  end_publication(codec,
                  encode_delta(layout(), codec, next_delta_key(), master_, published_, &encoded_));
}

void ServerCore::end_publication(CodecId codec, const Status& encoded) {
  if (!encoded.ok()) {
    log_error("version %llu is not finite and is dropped: %s",
              static_cast<unsigned long long>(version_), encoded.message().c_str());
    master_ = published_;
    note_move({.kind = ModelMove::Kind::kDrop, .updates = {}, .master = {}});
    return;
  }
  // Whatever a codec made of them, and the factor on all parameters.
  statistics_.publish(master_);
  statistics_.publish(published_);
  Delta delta;
  delta.from = publication_;
  delta.from_version = published_version_;
  delta.chunks = encoded_.chunks;
  delta.statistics = published_statistics(layout(), published_);
  delta.bytes = encoded_.bytes() + delta.statistics.size() * sizeof(float);
  ++publication_;
  published_version_ = version_;
  applied_since_publication_ = 0;
  checksum_ = model_checksum(published_);
  delta.checksum = checksum_;
  note_move({.kind = ModelMove::Kind::kPublish,
             .updates = {},
             .master = {},
             .codec = codec,
             .checksum = checksum_});
  log_debug("publication %llu checksum %08x", static_cast<unsigned long long>(publication_),
            checksum_);
  look_after_publishing(codec);
  keep_delta(std::move(delta));
}

void ServerCore::publish_if_due(TimeUs now) {
  if (applied_since_publication_ == 0 || finished_) return;
  const bool interval_over =
      static_cast<double>(now - last_publication_at_) >= exchange_interval_us_;
  if (!pace_->publishes(table_, applied_since_publication_, interval_over)) return;
  decay(directive_.keep);
  note_move(
      {.kind = ModelMove::Kind::kDecay, .keep = directive_.keep, .updates = {}, .master = {}});
  publish(static_cast<CodecId>(directive_.codec_down));
  last_publication_at_ = now;
  choose_pace(now);
  compose_directive();
}

void ServerCore::release() {
  for (Member& member : members_) {
    if (member.exchange.token == 0 || member.held) continue;
    if (!finished_ && !pace_->releases(table_, pace_row(member))) continue;
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
  member.tau = tau_of(member);
  // A plan of the pace for this worker alone.
  const uint32_t iterations = pace_->iterations(member.id);
  granted.directive.tau = std::min(member.tau * iterations, std::max(member.tau, kTauMax));
  granted.directive.steps_cap = std::max(granted.directive.steps_cap, granted.directive.tau);
  reply(token, std::move(granted), member.session);
}

}  // namespace paceline
