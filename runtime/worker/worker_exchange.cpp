// The conversation of a worker with its server: hello, push, commit, fetch, and every way they can
// fail.
#include <algorithm>

#include "runtime/base/check.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/worker/worker_core.h"

namespace paceline {

namespace {

// What a board says that keeps its numbers to itself: it trains, and does not only observe.
constexpr uint64_t kRowsToTrain = 20;

// What the board itself allows, beside the run; 0: whatever the run says.
Status insist(double epsilon_max, std::optional<PrivacySpec>* privacy) {
  if (epsilon_max == 0) return {};
  if (!*privacy)
    return fail(Code::kRefused,
                "this run has no [privacy], and this board sends nothing without noise; start it "
                "without --epsilon-max, or give the run the table");
  double& most = (*privacy)->epsilon_max;
  most = most > 0 ? std::min(most, epsilon_max) : epsilon_max;
  return {};
}

}  // namespace

void WorkerCore::say_hello(TimeUs now) {
  transfer_began_ = kNever;
  Hello hello;
  hello.name = options_.name;
  hello.incarnation = options_.incarnation;
  hello.build = options_.build;
  hello.generation = generation_;
  hello.publication = publication_;
  hello.published_checksum = published_checksum_;
  const std::optional<PendingUpdate>& pending = saved_ ? saved_->pending : pending_;
  hello.last_settled = saved_ ? saved_->last_settled : last_settled_;
  hello.pending_sequence = pending ? pending->sequence : 0;
  hello.training_rows = options_.training_rows;
  hello.held_out_rows = options_.held_out_rows;
  hello.feature_count = options_.feature_count;
  hello.class_count = options_.class_count;
  if (options_.epsilon_max > 0) {
    hello.training_rows = std::min(hello.training_rows, kRowsToTrain);
    hello.held_out_rows = 0;
  }
  enter(Phase::kConnect, now);
  send(Lane::kExchange, std::move(hello), exchange_timeout_us_);
}

Status WorkerCore::adopt_run(const Welcome& welcome) {
  if (welcome.run == run_text_ && run_.trainer) return {};
  if (run_.trainer) {
    if (pending_)
      drop_pending("the server has another run");
    else
      drop_residual("the server has another run");
  }
  PACELINE_ASSIGN(LocalRun run, factory_(welcome.run));
  PACELINE_TRY(insist(options_.epsilon_max, &run.spec.privacy));
  run_ = std::move(run);
  run_text_ = welcome.run;
  run_checksum_ = crc32c(std::as_bytes(std::span(run_text_)));
  const size_t elements = static_cast<size_t>(run_.spec.model.layout.element_count());
  for (std::vector<float>* flat : {&published_, &local_, &base_, &residual_, &gradient_, &scratch_})
    flat->assign(elements, 0.0f);
  optimizer_.emplace(make_optimizer(run_.spec));
  seen_ = StatisticsPool(run_.spec.model.layout);
  if (run_.spec.privacy) trained_ = trained_elements(run_.spec.model);
  publication_ = 0;
  local_publication_ = 0;
  published_checksum_ = 0;
  period_units_ = 0;
  return {};
}

void WorkerCore::resume(const Welcome& welcome) {
  WorkerState saved = std::move(*saved_);
  saved_.reset();
  saved_bytes_ = {};
  const ParameterLayout& layout = run_.spec.model.layout;
  bool fits = saved.run_checksum == run_checksum_ && saved.residual.size() == residual_.size();
  if (fits && saved.pending && saved.pending->has_update) {
    const std::vector<Bytes>& chunks = saved.pending->update.chunks;
    fits = chunks.size() == layout.chunk_count();
    for (uint32_t i = 0; fits && i < chunks.size(); ++i)
      fits = verify_payload(layout, i, chunks[i]).has_value();
  }
  if (!fits) {
    restored_ = Restored::kOtherRun;
    return;
  }
  run_.trainer->seek(saved.cursor);
  stats_.lost_gradient_total = saved.lost_gradient_total;
  next_sequence_ = saved.next_sequence;
  update_norms_ = std::move(saved.update_norms);
  residual_norms_ = std::move(saved.residual_norms);
  residual_ = std::move(saved.residual);
  if (!still_true(saved, welcome)) {
    restored_ = Restored::kOutdated;
    log_warning("what was kept is out of date: update %llu was settled then, %llu is now",
                static_cast<unsigned long long>(saved.last_settled),
                static_cast<unsigned long long>(welcome.last_settled));
    return drop_residual("more has happened since it was saved");
  }
  restored_ = Restored::kKept;
  generation_ = saved.generation;
  last_settled_ = saved.last_settled;
  round_ = saved.round;
  directive_.tau = std::clamp(saved.tau, 1u, kTauMax);
  pending_ = std::move(saved.pending);
  if (!optimizer_->restore(std::move(saved.optimizer)))
    log_warning("what was kept of the optimizer does not fit; it starts anew");
  log_info("going on with what was kept from the last life, settled up to update %llu%s",
           static_cast<unsigned long long>(last_settled_), pending_ ? "; one is pending" : "");
  log_debug("residual checksum %08x", model_checksum(residual_));
}

void WorkerCore::begin_at_start(uint32_t checksum) {
  init_parameters(run_.spec.model, run_.spec.training.seed, scratch_);
  flush_small(scratch_);
  if (model_checksum(scratch_) != checksum) return;  // the run began with weights from elsewhere
  published_ = scratch_;
  publication_ = kFirstPublication;
  published_checksum_ = checksum;
  local_publication_ = 0;
}

void WorkerCore::on_welcome(const Welcome& welcome, TimeUs now) {
  if (welcome.protocol < kProtocolMin || welcome.protocol > kProtocol)
    return fail_with(fail(Code::kUnsupported,
                          "the server wants protocol %u, this worker speaks %u to %u; "
                          "bring both to one version",
                          welcome.protocol, kProtocolMin, kProtocol));
  if (Status status = adopt_run(welcome); !status.ok()) return fail_with(std::move(status));
  if (rows_differ()) {
    static_cast<RowCounts&>(options_) = *run_.rows;
    return say_hello(now);
  }
  if (saved_) resume(welcome);

  session_ = welcome.session;
  seed_ = welcome.seed;
  heartbeat_ms_ = std::clamp(welcome.heartbeat_ms, 10u, 600'000u);
  exchange_timeout_us_ = from_ms(std::clamp(welcome.exchange_timeout_ms, 10u, 3'600'000u));

  const bool rollback = generation_ != 0 && welcome.generation != generation_;
  if (rollback) {
    ++stats_.rolled_back;
    log_info("the server went back to generation %llu, publication %llu; taking its model",
             static_cast<unsigned long long>(welcome.generation),
             static_cast<unsigned long long>(welcome.publication));
    // What the server's older state has settled stays settled; the rest is ours again.
    if (pending_ && welcome.last_settled < pending_->sequence) unsend_pending();
    absorb_period();
    optimizer_->drop();
    publication_ = 0;
  } else if (publication_ > welcome.publication) {
    log_warning("publication %llu is held here, the server is at %llu; taking its model",
                static_cast<unsigned long long>(publication_),
                static_cast<unsigned long long>(welcome.publication));
    absorb_period();
    publication_ = 0;
  }
  generation_ = welcome.generation;
  if (!pending_) last_settled_ = welcome.last_settled;
  if (publication_ == 0 && welcome.start_checksum != 0) begin_at_start(welcome.start_checksum);

  // Steps that this worker sat out: its momentum is that much older.
  const uint64_t missed_rounds = welcome.round > round_ + 1 ? welcome.round - round_ - 1 : 0;
  if (round_ != 0 && missed_rounds > 0 && !rollback) {
    const double missed = static_cast<double>(missed_rounds) * std::max(directive_.tau, 1u);
    if (missed * (1.0 - static_cast<double>(optimizer_->beta())) > 1.0)
      optimizer_->drop();
    else
      optimizer_->decay(static_cast<uint32_t>(missed));
  }
  const uint64_t old_round = round_;
  round_ = welcome.round;
  directive_ = welcome.directive;
  next_sequence_ = std::max(next_sequence_, welcome.next_sequence);

  if (publication_ != 0 && publication_ == welcome.publication &&
      published_checksum_ != welcome.checksum) {
    // Going on would be refused as late again and again.
    log_warning("publication %llu is another one here (%08x) than at the server (%08x); taking its",
                static_cast<unsigned long long>(publication_), published_checksum_,
                welcome.checksum);
    ++stats_.checksum_faults;
    need_exact_ = true;
  }
  if (pending_) return settle_from(welcome, now);
  if (publication_ == welcome.publication && old_round == round_ && period_units_ > 0 &&
      !need_exact_) {
    // Only the session was lost: the period goes on.
    enter(Phase::kTrain, now);
    ready_sent_ = false;
    return after_unit(now);
  }
  absorb_period();
  go_to_publication(welcome.publication, now);
}

void WorkerCore::settle_from(const Welcome& welcome, TimeUs now) {
  if (welcome.last_settled > pending_->sequence) {
    // Another life of this name has gone on; what became of this update is not recorded any more.
    drop_pending("another worker of this name has gone on meanwhile");
    return go_to_publication(welcome.publication, now);
  }
  if (welcome.last_settled == pending_->sequence) {
    if (welcome.verdict == Verdict::kRefused) {
      // Asked again, the server tells the class, and so what to do with it.
      enter(Phase::kCommit, now);
      return commit();
    }
    log_debug("update %llu was granted", static_cast<unsigned long long>(pending_->sequence));
    settle_applied();
    return go_to_publication(welcome.publication, now);
  }
  if (welcome.held) {
    enter(Phase::kCommit, now);
    return commit();
  }
  pending_->next_chunk = 0;
  enter(Phase::kPush, now);
  push_next();
}

void WorkerCore::push_next() {
  PendingUpdate& pending = *pending_;
  const uint32_t count =
      pending.has_update ? static_cast<uint32_t>(pending.update.chunks.size()) : 0;
  if (pending.next_chunk >= count) {
    phase_ = Phase::kCommit;
    return commit();
  }
  Push push;
  push.incarnation = options_.incarnation;
  push.sequence = pending.sequence;
  push.update_checksum = pending.update.checksum;
  push.chunk = pending.next_chunk;
  push.chunk_count = count;
  push.payload = pending.update.chunks[pending.next_chunk];
  send(Lane::kExchange, std::move(push), exchange_timeout_us_);
}

void WorkerCore::commit() {
  const PendingUpdate& pending = *pending_;
  Exchange exchange;
  exchange.incarnation = options_.incarnation;
  exchange.sequence = pending.sequence;
  exchange.update_checksum = pending.has_update ? pending.update.checksum : 0;
  exchange.chunk_count =
      pending.has_update ? static_cast<uint32_t>(pending.update.chunks.size()) : 0;
  exchange.generation = pending.generation;
  exchange.base_publication = pending.base_publication;
  exchange.base_checksum = pending.base_checksum;
  exchange.round = pending.round;
  exchange.steps = pending.steps;
  exchange.clock = clock_;
  exchange.step_us = static_cast<uint32_t>(std::min(step_us_, 4e9));
  exchange.waited_us = static_cast<uint64_t>(pending.waited_us);
  exchange.training_loss = pending.training_loss;
  exchange.leaving = leaving_;
  goodbye_sent_ = leaving_;
  log_debug("update %llu goes to be committed", static_cast<unsigned long long>(pending.sequence));
  exchange.evaluations = pending.evaluations;
  exchange.push_us = measured_.push_us;
  exchange.fetch_us = measured_.fetch_us;
  exchange.update_norm = measured_.update_norm;
  exchange.coded_norm = measured_.coded_norm;
  exchange.residual_norm = measured_.residual_norm;
  exchange.statistic_rows = pending.statistics.rows;
  exchange.statistics = pending.statistics.values;
  send(Lane::kExchange, std::move(exchange), exchange_timeout_us_);
}

void WorkerCore::on_granted(const Granted& granted, TimeUs now) {
  if (granted.generation != generation_) return say_hello(now);
  log_debug("update %llu is granted%s", static_cast<unsigned long long>(pending_->sequence),
            granted.durable ? "" : ", not durable");
  settle_applied();
  ++stats_.exchanges;
  round_ = granted.round;
  directive_ = granted.directive;
  if (goodbye_sent_) return enter(Phase::kStopped, now);
  go_to_publication(granted.publication, now);
}

void WorkerCore::on_refused(const Refused& refused, TimeUs now) {
  log_info("refused: %s; %s", refused.reason.c_str(), refused.fix.c_str());
  if (phase_ == Phase::kConnect) {
    if (refused.refusal == RefusalClass::kNotAllowed)
      return fail_with(fail(Code::kRefused, "%s; %s", refused.reason.c_str(), refused.fix.c_str()));
    lanes_[static_cast<size_t>(Lane::kExchange)].failures += 1;
    return retry_later(Lane::kExchange, now);
  }
  if (pending_ && refused.sequence == pending_->sequence) {
    log_debug("update %llu is refused", static_cast<unsigned long long>(pending_->sequence));
    switch (refused.refusal) {
      case RefusalClass::kLate:
        ++stats_.refused_late;
        unsend_pending();
        break;
      case RefusalClass::kContent:
        drop_pending(refused.reason.c_str());
        break;
      case RefusalClass::kReset:
        drop_pending(refused.reason.c_str());
        optimizer_->drop();
        publication_ = 0;
        break;
      case RefusalClass::kStaleSession:
      case RefusalClass::kNotAllowed:
        break;  // Welcome tells what became of it
    }
  }
  if (goodbye_sent_ && !pending_) return enter(Phase::kStopped, now);
  if (phase_ == Phase::kFetch) need_exact_ = true;
  say_hello(now);
}

void WorkerCore::on_heartbeat(const HeartbeatReply& reply, TimeUs now) {
  if (phase_ != Phase::kTrain) return;
  if (reply.generation != generation_) return say_hello(now);
  if (reply.round > round_) {
    ++stats_.rounds_missed;
    absorb_period();
    say_hello(now);
  }
}

void WorkerCore::go_to_publication(uint64_t publication, TimeUs now) {
  target_publication_ = publication;
  measured_.fetch_us = 0;
  if (publication_ == publication && !need_exact_) return begin_period(now);
  enter(Phase::kFetch, now);
  transfer_began_ = now;
  incoming_ = {};
  incoming_chunks_.clear();
  ask_fetch();
}

void WorkerCore::ask_fetch() {
  waiting_for_ = "the model";
  Fetch fetch;
  fetch.generation = generation_;
  fetch.exact = need_exact_;
  fetch.chunk = static_cast<uint32_t>(incoming_chunks_.size());
  const bool key_frame =
      incoming_chunks_.empty() ? publication_ == 0 || need_exact_ : incoming_.key_frame;
  fetch.from = key_frame ? 0 : publication_;
  fetch.to = fetch.chunk > 0 ? incoming_.publication : target_publication_;
  send(Lane::kExchange, fetch, exchange_timeout_us_);
}

void WorkerCore::on_fetched(const Fetched& fetched, TimeUs now) {
  if (Status status = take_chunk(fetched); !status.ok()) {
    log_warning("fetching publication %llu: %s; asking for an exact copy",
                static_cast<unsigned long long>(target_publication_), status.message().c_str());
    ++stats_.checksum_faults;
    need_exact_ = true;
    transfer_began_ = kNever;
    incoming_ = {};
    incoming_chunks_.clear();
    // After a pause: a server that always sends wrong bytes must not be asked in a tight loop.
    ask_fetch();
    outgoing_.pop_back();
    LaneState& lane = lanes_[static_cast<size_t>(Lane::kExchange)];
    ++lane.failures;
    return retry_later(Lane::kExchange, now);
  }
  if (publication_ >= target_publication_ && incoming_chunks_.empty()) {
    measured_.fetch_us = transfer_us(now);
    return begin_period(now);
  }
  ask_fetch();
}

Status WorkerCore::take_chunk(const Fetched& fetched) {
  const ParameterLayout& layout = run_.spec.model.layout;
  if (fetched.generation != generation_) return fail(Code::kCorrupt, "it is of another generation");
  if (fetched.chunk_count != layout.chunk_count() || fetched.chunk != incoming_chunks_.size())
    return fail(Code::kCorrupt, "chunk %u of %u, expected %zu of %u", fetched.chunk,
                fetched.chunk_count, incoming_chunks_.size(), layout.chunk_count());
  if (incoming_chunks_.empty()) {
    if (!fetched.key_frame &&
        (need_exact_ || fetched.from != publication_ || fetched.publication != publication_ + 1))
      return fail(Code::kCorrupt, "a delta after publication %llu, %llu is held",
                  static_cast<unsigned long long>(fetched.from),
                  static_cast<unsigned long long>(publication_));
    incoming_ = {};
    incoming_.publication = fetched.publication;
    incoming_.key_frame = fetched.key_frame;
    incoming_.checksum = fetched.checksum;
  } else if (fetched.publication != incoming_.publication ||
             fetched.key_frame != incoming_.key_frame || fetched.checksum != incoming_.checksum) {
    return fail(Code::kCorrupt, "its chunks belong to different publications");
  }
  incoming_chunks_.push_back(fetched.payload);
  if (incoming_chunks_.size() < layout.chunk_count()) return {};

  const size_t statistics = fetched.key_frame ? 0 : statistic_count(layout);
  if (fetched.statistics.size() != statistics)
    return fail(Code::kCorrupt, "%zu statistics, the model has %zu", fetched.statistics.size(),
                statistics);
  // Complete: verify every payload before the first one is applied.
  std::vector<PayloadView> views;
  for (uint32_t i = 0; i < layout.chunk_count(); ++i) {
    PACELINE_ASSIGN(PayloadView view, verify_payload(layout, i, incoming_chunks_[i]));
    views.push_back(view);
  }
  const uint64_t seed = downlink_seed(seed_);
  for (const PayloadView& view : views) apply_delta(layout, view, seed, published_);
  if (statistics > 0) set_published_statistics(layout, fetched.statistics, published_);
  const uint32_t checksum = model_checksum(published_);
  publication_ = 0;  // until it is known to be right
  if (checksum != incoming_.checksum)
    return fail(Code::kCorrupt, "its checksum is %08x, the server's %08x", checksum,
                incoming_.checksum);
  publication_ = incoming_.publication;
  published_checksum_ = checksum;
  if (incoming_.key_frame) local_publication_ = 0;  // what local_ stood on may have been wrong
  log_debug("publication %llu checksum %08x", static_cast<unsigned long long>(publication_),
            checksum);
  need_exact_ = false;
  incoming_ = {};
  incoming_chunks_.clear();
  return {};
}

}  // namespace paceline
