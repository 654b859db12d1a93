// Updates come in: staged chunk by chunk, committed whole, applied or held, or refused with a
// reason.
#include <algorithm>
#include <cmath>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "server/server_core.h"

namespace paceline {

namespace {

// A worker that is further behind starts afresh: so many publications, or as many times what is
// usual for it.
constexpr uint64_t kResetGapPublications = 50;
constexpr double kResetGapFactor = 4;
constexpr double kEvaluationQuorum = 0.9;     // of the held-out rows of the members
constexpr uint64_t kEvaluationsOpenMax = 64;  // publications

Refused leaping(uint64_t sequence) {
  return {sequence, RefusalClass::kStaleSession, "its sequence is far ahead of all others",
          "say hello again"};
}

Refused of_another_life(uint64_t sequence) {
  return {sequence, RefusalClass::kStaleSession, "another life of this worker is known here",
          "say hello again"};
}

uint32_t checksum_of(const std::vector<Bytes>& chunks, std::span<const float> statistics) {
  uint32_t checksum = 0;
  for (const Bytes& chunk : chunks) checksum = crc32c(chunk, checksum);
  return crc32c(std::as_bytes(statistics), checksum);
}

}  // namespace

void ServerCore::on_push(Member& member, RequestToken token, const Push& push) {
  if (push.incarnation != member.incarnation)
    return reply(token, of_another_life(push.sequence), member.session);
  member.eligible = true;
  member.got_at = member.last_seen;
  const auto wrong = [&](const std::string& what) {
    refuse(member, token, {push.sequence, RefusalClass::kContent, what, "the payload is dropped"});
  };
  if (member.leaps(push.sequence)) return reply(token, leaping(push.sequence), member.session);
  if (push.sequence <= member.last_settled ||
      (member.held && member.held->sequence == push.sequence))
    return reply(token, Got{push.sequence, push.chunk}, member.session);  // a late copy
  if (push.chunk_count != layout().chunk_count() || push.chunk >= push.chunk_count)
    return wrong(format_text("chunk %u of %u, the model has %u", push.chunk, push.chunk_count,
                             layout().chunk_count()));
  if (Result<PayloadView> view = verify_payload(layout(), push.chunk, push.payload); !view)
    return wrong(format_text("chunk %u: %s", push.chunk, view.error().message().c_str()));
  Staging& staging = member.staging;
  if (staging.sequence > push.sequence)
    return reply(token, Got{push.sequence, push.chunk}, member.session);
  if (staging.sequence < push.sequence || staging.checksum != push.update_checksum) {
    staging.sequence = push.sequence;
    staging.checksum = push.update_checksum;
    staging.chunks.assign(push.chunk_count, {});
  }
  staging.chunks[push.chunk] = push.payload;
  member.next_sequence = std::max(member.next_sequence, push.sequence + 1);
  reply(token, Got{push.sequence, push.chunk}, member.session);
}

void ServerCore::on_ready(Member& member, RequestToken token, const Ready& ready, TimeUs now) {
  if (ready.incarnation != member.incarnation)
    return reply(token, of_another_life(0), member.session);
  member.eligible = true;
  if (ready.round < round_ || !pace_->elastic() || finished_ ||
      (ready.round == round_ && cut_called_))
    return reply(token, Close{ready.round}, member.session);
  member.ready = ready.round == round_;
  park(member.ready_request, token, member.session, now);
}

void ServerCore::on_exchange(Member& member, RequestToken token, const Exchange& exchange,
                             TimeUs now) {
  if (exchange.incarnation != member.incarnation)
    return reply(token, of_another_life(exchange.sequence), member.session);
  if (member.leaps(exchange.sequence))
    return reply(token, leaping(exchange.sequence), member.session);
  member.eligible = !exchange.leaving;
  if (const TimeUs got_at = std::exchange(member.got_at, 0); got_at != 0)
    member.link.observe_trip(static_cast<double>(now - got_at));
  if (exchange.leaving && !member.left) {
    // Whatever becomes of its update.
    member.left = true;
    member.counted = false;
    log_info("worker %s leaves", member.name.c_str());
  }
  const uint64_t sequence = exchange.sequence;
  const bool settled = sequence <= member.last_settled;
  if (settled && sequence == member.last_settled && member.verdict == Verdict::kRefused)
    return reply(token,
                 Refused{sequence, member.refusal, "this update was refused before",
                         member.refusal == RefusalClass::kLate ? "take it back into the residual"
                                                               : "it is dropped"},
                 member.session);
  const bool held = member.held && member.held->sequence == sequence;
  if (!settled && !held && !commit(member, token, exchange, now)) return;
  if (exchange.leaving) {
    // Its update waits for a close, and it does not wait for that.
    if (member.held) member.held->granted = must_record_ = true;
    return grant(member, token);
  }
  park(member.exchange, token, member.session, now);
}

std::optional<Refused> ServerCore::objection(const Member& member, const Exchange& exchange) const {
  const auto refused = [&](RefusalClass refusal, std::string reason, const char* fix) {
    return Refused{exchange.sequence, refusal, std::move(reason), fix};
  };
  const char* take_back = "take it back into the residual";
  if (exchange.steps < 1 || exchange.steps > 4 * kTauMax)
    return refused(RefusalClass::kContent, format_text("%u steps in one update", exchange.steps),
                   "the update is dropped");
  if (finished_) return refused(RefusalClass::kLate, "the run is over", take_back);
  if (exchange.generation != generation_)
    return refused(RefusalClass::kLate, "it belongs to another generation of the model", take_back);
  if (exchange.base_publication > publication_ || exchange.base_publication == 0)
    return refused(RefusalClass::kLate, "it stands on a publication that is not known here",
                   take_back);
  const uint64_t gap = publication_ - exchange.base_publication;
  const double gap_max =
      std::max(static_cast<double>(kResetGapPublications), kResetGapFactor * member.usual_gap);
  if (static_cast<double>(gap) > gap_max)
    return refused(
        RefusalClass::kReset,
        format_text("its model is %llu publications old", static_cast<unsigned long long>(gap)),
        "it starts afresh on the newest model");
  if (gap == 0 && exchange.base_checksum != checksum_)
    return refused(RefusalClass::kLate, "its copy of the model differs from ours", take_back);
  if (pace_->has_rounds() && exchange.round != round_)
    return refused(
        RefusalClass::kLate,
        format_text("round %llu is closed", static_cast<unsigned long long>(exchange.round)),
        take_back);
  return std::nullopt;
}

bool ServerCore::commit(Member& member, RequestToken token, const Exchange& exchange, TimeUs now) {
  member.next_sequence = std::max(member.next_sequence, exchange.sequence + 1);
  if (member.held) {
    refuse(member, token,
           {exchange.sequence, RefusalClass::kLate,
            "an update of this worker's last life has its place in the round",
            "take it back into the residual"});
    return false;
  }
  if (std::optional<Refused> refused = objection(member, exchange)) {
    refuse(member, token, std::move(*refused));
    return false;
  }
  Statistics statistics{exchange.statistic_rows, exchange.statistics};
  const uint64_t rows_max = uint64_t{exchange.steps} * options_.run.training.batch;
  if (const Status status = statistics_.check(statistics, rows_max); !status.ok()) {
    refuse(member, token,
           {exchange.sequence, RefusalClass::kContent, status.message(), "the update is dropped"});
    return false;
  }
  HeldUpdate update;
  update.sequence = exchange.sequence;
  update.base_publication = exchange.base_publication;
  update.steps = exchange.steps;
  update.waited_us = exchange.waited_us;
  if (exchange.chunk_count > 0) {
    Staging& staging = member.staging;
    Missing missing{exchange.sequence, {}};
    const bool same = staging.sequence == exchange.sequence &&
                      staging.checksum == exchange.update_checksum &&
                      exchange.chunk_count == layout().chunk_count();
    for (uint32_t i = 0; i < layout().chunk_count(); ++i)
      if (!same || staging.chunks[i].empty()) missing.chunks.push_back(i);
    if (missing.chunks.empty() &&
        checksum_of(staging.chunks, exchange.statistics) != staging.checksum) {
      staging = {};
      for (uint32_t i = 0; i < layout().chunk_count(); ++i) missing.chunks.push_back(i);
    }
    if (!missing.chunks.empty()) {
      reply(token, std::move(missing), member.session);
      return false;
    }
    update.statistics = std::move(statistics);
    update.chunks = std::move(staging.chunks);
    for (uint32_t i = 0; i < update.chunks.size(); ++i) {
      Result<PayloadView> view = verify_payload(layout(), i, update.chunks[i]);
      PACELINE_CHECK(view.has_value());
      update.views.push_back(*view);
    }
  }
  member.staging = {};
  if (member.observes()) {
    // It is settled like any other, and moves nothing.
    update.chunks.clear();
    update.views.clear();
    update.statistics = {};
  }

  if (member.last_exchange != 0) {
    const double interval = static_cast<double>(now - member.last_exchange);
    exchange_interval_us_ =
        exchange_interval_us_ == 0 ? interval : 0.9 * exchange_interval_us_ + 0.1 * interval;
  }
  member.last_exchange = now;
  const auto gap = static_cast<double>(publication_ - exchange.base_publication);
  member.usual_gap = 0.9 * member.usual_gap + 0.1 * gap;
  member.steps += exchange.steps;
  member.waited_us += exchange.waited_us;
  member.step_us = exchange.step_us;
  member.training_loss = exchange.training_loss;
  ++member.exchanges;
  ++member.clock;
  take_evaluations(member, exchange);
  log_debug("worker %s: update %llu is taken", member.name.c_str(),
            static_cast<unsigned long long>(exchange.sequence));
  member.held = std::move(update);
  note_update(member, exchange);
  return true;
}

void ServerCore::refuse(Member& member, RequestToken token, Refused refused) {
  ++member.refused;
  if (refused.refusal == RefusalClass::kContent) ++member.strikes;
  if (const std::optional<std::string> more = member.lines.pass(member.last_seen))
    log_info("worker %s: update %llu refused: %s%s", member.name.c_str(),
             static_cast<unsigned long long>(refused.sequence), refused.reason.c_str(),
             more->c_str());
  member.unrecorded = true;
  if (refused.sequence > member.last_settled) {
    must_record_ = true;
    member.last_settled = refused.sequence;
    member.verdict = Verdict::kRefused;
    member.refusal = refused.refusal;
    member.next_sequence = std::max(member.next_sequence, refused.sequence + 1);
  }
  member.staging = {};
  reply(token, std::move(refused), member.session);
}

void ServerCore::judge_norms(std::span<Member* const> holders) {
  std::vector<double> norms;
  std::vector<Member*> judged;
  for (Member* member : holders) {
    double squares = 0;
    for (const PayloadView& view : member->held->views)
      squares += payload_norm_squared(layout(), view);
    if (squares <= 0) continue;
    judged.push_back(member);
    // With noise, updates are alike long however many steps are in them.
    const uint32_t steps = options_.run.privacy ? 1 : std::max(member->held->steps, 1u);
    norms.push_back(std::sqrt(squares) / steps);
  }
  const double usual = usual_of_round(norms);
  const bool settling = norm_settling_.settling(generation_, directive_, rounds_done());
  for (size_t i = 0; i < judged.size(); ++i) {
    Member& member = *judged[i];
    const NormVerdict verdict =
        judge_norm(norms[i], usual, member.norms.usual(directive_.tau), settling);
    if (verdict.refused) {
      const uint64_t sequence = member.held->sequence;
      member.held.reset();
      refuse(member, std::exchange(member.exchange, {}).token,
             {sequence, RefusalClass::kContent,
              format_text("it is %.3g times as long as is usual", verdict.times_usual),
              "the update is dropped; check the board's data and clock"});
      continue;
    }
    member.norms.remember(norms[i] * static_cast<double>(verdict.clip), directive_.tau);
    member.held->clip = verdict.clip;
    if (verdict.clip >= 1) continue;
    ++member.clipped;
    if (const std::optional<std::string> more = member.lines.pass(member.last_seen))
      log_info("worker %s: update %llu is %.3g times as long as is usual and is shortened%s",
               member.name.c_str(), static_cast<unsigned long long>(member.held->sequence),
               verdict.times_usual, more->c_str());
  }
}

void ServerCore::take_evaluations(const Member& member, const Exchange& exchange) {
  for (const Evaluation& evaluation : exchange.evaluations) {
    // Self-reported, so held against what the worker said it has.
    const uint64_t loss_max = evaluation.rows << 22;  // 64 in 16.16 fixed point a row
    if (evaluation.rows == 0 || evaluation.rows > member.held_out_rows ||
        evaluation.correct > evaluation.rows || evaluation.loss_fixed16 > loss_max ||
        evaluation.publication > publication_ ||
        evaluation.publication + kEvaluationsOpenMax < publication_)
      continue;
    PartialEvaluation& partial = evaluations_[evaluation.publication];
    if (!partial.workers.insert(member.id).second) continue;
    partial.sum.publication = evaluation.publication;
    partial.sum.rows += evaluation.rows;
    partial.rows_said += member.held_out_rows;
    partial.sum.correct += evaluation.correct;
    partial.loss_fixed16 += evaluation.loss_fixed16;
  }
}

void ServerCore::finish_evaluations(bool closing) {
  uint64_t expected = 0;
  for (const Member& member : members_)
    if (member.counted) expected += member.held_out_rows;
  while (!evaluations_.empty()) {
    const auto oldest = evaluations_.begin();
    PartialEvaluation& partial = oldest->second;
    // Rows that still come are fewer than their ring holds; who has reported has reported all.
    const bool enough = expected > 0 && static_cast<double>(partial.rows_said) >=
                                            kEvaluationQuorum * static_cast<double>(expected);
    const bool stale = oldest->first + kEvaluationsOpenMax < publication_;
    if (!enough && !closing && !stale) return;
    if (enough) {
      partial.sum.loss = static_cast<double>(partial.loss_fixed16) * 0x1p-16 /
                         static_cast<double>(partial.sum.rows);
      partial.sum.rate_share =
          static_cast<double>(directive_.rate / static_cast<float>(options_.run.training.rate));
      ++evaluation_count_;
      last_evaluation_ = partial.sum;
      director_.observe(partial.sum);
    }
    evaluations_.erase(oldest);
  }
}

}  // namespace paceline
