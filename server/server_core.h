// The parameter server as a state machine: sessions, rounds, sums, publications.
//
// Pure: (event, now) in, replies out. It holds no socket, clock, file or thread; the daemon, the
// simulator and the tests drive this same object. Sums are taken in worker-id order, so the same
// updates give the same bytes whatever the order of arrival. Single thread.
//
// docs/architecture.md tells how a round goes; docs/wire_format.md tells the messages.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "runtime/pace/pace.h"
#include "runtime/train/training.h"
#include "server/aggregation.h"
#include "server/director.h"
#include "server/member.h"
#include "server/round_comparison.h"
#include "server/server_record.h"

namespace paceline {

struct ServerOptions {
  std::string run_text;  // what every worker is sent
  RunSpec run;           // the same, parsed
  // Where training starts, as long as the model's layout; empty: at random, from the run's seed.
  std::vector<float> start;
  // The run names its columns: a worker finds out by the run's text what its file has of them, and
  // says Hello again where that is not what it said first.
  bool columns_by_name = false;
  std::string pace = "compat";
  std::string freq = "trend";
  CodecId codec_up = CodecId::kS1r;
  CodecId codec_down = CodecId::kS1r;
  bool codec_up_auto = false;  // chosen by the link instead (docs/content.md)
  bool codec_down_auto = false;
  bool pace_auto() const { return pace == "auto" || pace.starts_with("auto+"); }
  std::string aggregate = "mean";  // how a round's updates become one (server/aggregation.h)
  double rate_end = 0.1;
  uint32_t warmup_publications = 0;
  uint32_t min_workers = 1;
  uint32_t heartbeat_ms = 1000;            // three missed ones: the worker is gone
  uint32_t exchange_deadline_ms = 30'000;  // what a round waits from its first Ready or Exchange on
  std::vector<std::string> fleet;          // names whose ids are their places in this list
  uint64_t session_seed = 1;               // from the system's random source in a daemon
  bool durable = false;                    // what Granted says
  Recording recording = Recording::kOff;   // what take_record() gives
};

// Sees every update that is applied, for checkers and tests.
class ApplyObserver {
 public:
  virtual ~ApplyObserver() = default;
  virtual void applied(const Member& member, const HeldUpdate& update) = 0;
};

// What a worker is told that may not be here: "reason; fix".
Refused refusal_of(const Status& status);

class ServerCore {
 public:
  struct Reply {
    RequestToken token;
    Envelope envelope;
  };

  // Starts at the model's initial parameters, generation 1. Errors: kInvalidArgument for a pace,
  // frequency policy, codec or start that can't be.
  // `freq` replaces the policy that the options name.
  static Result<std::unique_ptr<ServerCore>> make(ServerOptions options,
                                                  std::unique_ptr<Freq> freq = nullptr);
  // Goes on from save()d bytes. `exact`: they are the last state of a life that ended in order;
  // otherwise the generation rises. Errors: kCorrupt, kInvalidArgument if they belong to another
  // run.
  Status restore(ByteSpan state, bool exact) {
    PACELINE_TRY(load(state));
    if (!exact) raise_generation();
    resume();
    return {};
  }
  Bytes save() const;

  // The same in steps, for a life that has left records behind its state: load(), redo() each in
  // order, and resume() before the first event. In between save() gives what the life before had
  // when it gave the record. Errors: kCorrupt; the core is then not to be used.
  Status load(ByteSpan state);
  Status redo(ByteSpan record);
  // What came after is lost in part.
  void raise_generation(uint64_t by = 1) { generation_ += by; }
  void resume();
  // What has happened since the last one, if it must outlive this server before anybody is told of
  // it; else empty. To be taken after each event. `everything`: also what nobody depends on.
  Bytes take_record(bool everything = false);

  // Events.
  void on_request(RequestToken token, const std::string& peer_identity, const Envelope& envelope,
                  TimeUs now);
  void on_timer(TimeUs now);
  // This worker may not be here any longer: whatever it has under way is refused with the reason.
  void expel(const std::string& name, const Status& why, TimeUs now);
  // Ends the run at the next cut with an exact publication.
  void finish(TimeUs now);
  // Before the last save() of a life: what was granted is in the state.
  void suspend() { apply_leavers(); }
  // From now on what is granted survives a crash, or does not.
  void set_durable(bool durable) { options_.durable = durable; }
  // Share of the planned run that is done, for the schedule of the rate and the dense end.
  void set_progress(double progress) { progress_ = progress; }

  std::vector<Reply> take_replies() { return std::exchange(replies_, {}); }
  TimeUs next_timer() const;

  // State, for status, reports and checks.
  uint64_t generation() const { return generation_; }
  uint64_t publication() const { return publication_; }
  uint64_t version() const { return version_; }
  uint64_t round() const { return round_; }
  // Closed rounds; publications where the pace has no rounds.
  uint64_t rounds_done() const;
  uint32_t checksum() const { return checksum_; }
  std::span<const float> published() const { return published_; }
  std::span<const float> master() const { return master_; }
  const StatisticsPool& statistics() const { return statistics_; }
  std::span<const Member> members() const { return members_; }
  const Directive& directive() const { return directive_; }
  const ContentPolicy& content() const { return director_.content(); }
  // The rule in force: with pace = "auto" the one that is chosen; and why.
  const std::string& pace_name() const { return pace_name_; }
  const std::string& pace_reason() const { return pace_reason_; }
  // Of the last publication that was looked at.
  const Gap& gap() const { return gap_; }
  const std::optional<FleetEvaluation>& last_evaluation() const { return last_evaluation_; }
  uint64_t evaluation_count() const { return evaluation_count_; }
  // After finish(): the exact publication is out. all_gone(): and every worker has fetched it,
  // or is silent, or has left.
  bool finished() const { return finished_; }
  bool all_gone(TimeUs now) const;
  const ServerOptions& options() const { return options_; }
  void set_observer(ApplyObserver* observer) { observer_ = observer; }

 private:
  struct Delta {
    uint64_t from = 0;
    uint64_t from_version = 0;
    std::vector<Bytes> chunks;      // none: not kept any more
    std::vector<float> statistics;  // of from + 1
    uint32_t checksum = 0;          // of from + 1
    size_t bytes = 0;               // of chunks and statistics
  };
  struct KeyFrame {
    uint64_t publication = 0;
    uint32_t checksum = 0;
    TimeUs made_at = 0;
    std::vector<Bytes> chunks;
  };
  struct RoundTimes {
    double step_us = 0;      // of the slowest contributor that does not do less
    double exchange_us = 0;  // of the round beside its computing: waiting for those who do, too
  };
  struct PartialEvaluation {
    FleetEvaluation sum;
    uint64_t loss_fixed16 = 0;
    uint64_t rows_said = 0;  // what these workers said that they hold out, at most
    std::set<uint32_t> workers;
  };

  ServerCore(ServerOptions options, AggregationChoice aggregation, std::unique_ptr<Pace> pace,
             std::unique_ptr<Freq> freq);

  // server_session.cpp: who is there.
  void on_hello(RequestToken token, const std::string& peer_identity, const Hello& hello,
                TimeUs now);
  Status admit(const Hello& hello) const;
  Member* member_of(uint64_t session);
  Member& member_named(const std::string& name);
  void on_heartbeat(Member& member, RequestToken token, const Heartbeat& beat, TimeUs now);
  void open_membership(TimeUs now);
  void weigh(Member& member) const;
  void uncount(Member& member, const char* why);
  void cut_off(Member& member, const Status& why);
  bool alive(const Member& member, TimeUs now) const;
  std::string waiting_reason(TimeUs now) const;

  // server_exchange.cpp: updates come in.
  void on_push(Member& member, RequestToken token, const Push& push);
  void on_ready(Member& member, RequestToken token, const Ready& ready, TimeUs now);
  void on_exchange(Member& member, RequestToken token, const Exchange& exchange, TimeUs now);
  bool commit(Member& member, RequestToken token, const Exchange& exchange, TimeUs now);
  std::optional<Refused> objection(const Member& member, const Exchange& exchange) const;
  void refuse(Member& member, RequestToken token, Refused refused);
  void take_evaluations(const Member& member, const Exchange& exchange);
  void finish_evaluations(bool closing);
  // Shortens or refuses held updates that are too long; who is refused holds none any more.
  void judge_norms(std::span<Member* const> holders);

  // server_round.cpp: rounds close, the model moves, workers go on.
  void advance(TimeUs now);
  void close_round(TimeUs now);
  void close_last(TimeUs now);
  void observe_round(float divisor, TimeUs now);
  void gather_payloads(std::span<Member* const> contributors);
  void apply_updates(std::span<Member* const> contributors, float divisor, float keep);
  float apply_by_rule(std::span<Member* const> contributors, float keep);
  void move_master(float divisor, float keep);
  void decay(float keep);
  void settle(std::span<Member* const> contributors);
  void close_at_once(std::span<Member* const> contributors, float divisor, CodecId codec);
  float divisor_of(std::span<Member* const> members) const;
  std::vector<Member*> counted_members();
  PaceRow pace_row(const Member& member) const;
  void refresh_table(TimeUs now);
  void apply_held(TimeUs now);
  void apply_leavers();
  float weight_of(const Member& member) const;
  RotationKey next_delta_key() const;
  void publish(CodecId codec);
  void end_publication(CodecId codec, const Status& encoded);
  void publish_if_due(TimeUs now);
  void release();
  void grant(Member& member, RequestToken token);

  // server_directing.cpp: how fast members are, and what the Director makes of that.
  void measure_round(std::span<Member* const> contributors, TimeUs now);
  void watch_speeds();
  uint32_t tau_of(const Member& member) const;
  // Far slower than the others of an elastic round, for some rounds now (docs/decisions/0012).
  bool does_less(const Member& member) const;
  double typical(double RoundTimes::*part) const;
  FleetFacts fleet_facts();
  void compose_directive();
  // With pace = "auto": follows the rule that is chosen, between two rounds.
  void choose_pace(TimeUs now);
  void follow_rule(const PaceCandidate& rule);
  void level_clocks();

  // server_recording.cpp: what outlives this server.
  void note_move(const ModelMove& move);
  double pool_statistics(std::span<Member* const> contributors);
  void note_applied(std::span<Member* const> contributors, float divisor, float keep,
                    bool by_rule = false);
  Status redo(const ModelMove& move);
  Status redo_apply(const ModelMove& move);
  Status load_member(ByteReader* in, uint32_t id);

  // server_content.cpp: what codecs keep back is measured.
  void note_update(Member& member, const Exchange& exchange);
  void note_codecs(const Directive& before);
  void look_before_publishing();
  void look_after_publishing(CodecId codec);

  // server_fetch.cpp: the model goes out.
  void keep_delta(Delta delta);
  bool has_delta_from(uint64_t publication) const;
  bool start_is_near() const;
  void on_fetch(Member& member, RequestToken token, const Fetch& fetch, TimeUs now);
  void send_key_frame(Member& member, RequestToken token, const Fetch& fetch, TimeUs now);

  void reply(RequestToken token, Message message, uint64_t session);
  void park(Parked& place, RequestToken token, uint64_t session, TimeUs now);
  const ParameterLayout& layout() const { return options_.run.model.layout; }

  ServerOptions options_;
  std::unique_ptr<Pace> pace_;
  std::string pace_name_, pace_reason_ = "the run says so";
  Director director_;
  ApplyObserver* observer_ = nullptr;
  Random session_numbers_;
  uint64_t run_checksum_ = 0;  // of the run's text: a saved state belongs to one run

  uint64_t generation_ = 1;
  uint64_t publication_ = kFirstPublication;
  uint64_t version_ = 0;
  uint64_t round_ = 1;
  uint64_t epoch_ = 0;    // of membership
  double rows_full_ = 0;  // training rows that weigh 1 in this epoch; 0: no member yet
  std::vector<float> master_;
  std::vector<float> published_;
  std::vector<float> sum_;  // of updates; or the model that is published next
  StatisticsPool statistics_;
  std::vector<WeightedPayload> payloads_;  // of updates that are applied now, chunk by chunk
  uint32_t checksum_ = 0;
  uint32_t start_checksum_ = 0;  // of what was published first in this life
  std::deque<Delta> deltas_;
  size_t bare_deltas_ = 0;  // of those the oldest, without their chunks
  size_t delta_bytes_ = 0;
  std::deque<KeyFrame> key_frames_;
  EncodedUpdate encoded_;

  std::vector<Member> members_;  // by id
  NormSettling norm_settling_;
  LogLimit hello_lines_;  // about workers that are turned away
  ClockTable table_;      // of those who are counted, for the pace
  uint64_t published_version_ = 0;
  Directive directive_;
  double progress_ = -1;
  // Of this life's first compared round, where the run has a plan: what time is left is seen from
  // it.
  struct {
    TimeUs at = kNever;
    double progress = 0;
  } planned_from_;
  RoundComparison comparison_;
  Aggregator aggregator_;
  bool finishing_ = false;
  bool finished_ = false;
  bool cut_called_ = false;  // of the open round
  TimeUs round_opened_at_ = kNever;
  std::deque<RoundTimes> round_times_;  // of the last rounds with the present codecs
  uint32_t rounds_unmeasured_ = 0;      // still to come after a change of codecs
  double median_step_us_ = 0;           // of the members, at the last close; 0: not known
  std::vector<WorkerCost> worker_costs_;
  double looked_norm_ = 0;  // of what the publication under way is to carry; 0: it is not looked at
  Gap gap_;
  std::string told_up_, told_down_;  // why the codecs are as they are, as last logged
  TimeUs round_deadline_ = kNever;
  // Paces without rounds: what decides when to publish.
  uint64_t applied_since_publication_ = 0;
  TimeUs last_publication_at_ = 0;
  double exchange_interval_us_ = 0;  // smoothed, of one worker

  std::map<uint64_t, PartialEvaluation> evaluations_;
  std::optional<FleetEvaluation> last_evaluation_;
  uint64_t evaluation_count_ = 0;
  std::vector<Reply> replies_;

  // Since the last record.
  bool must_record_ = false;
  ByteWriter moves_;
  uint32_t move_count_ = 0;
  Bytes recorded_director_;
};

}  // namespace paceline
