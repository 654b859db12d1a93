// A worker as a state machine: what it trains, when it cuts, what it sends and how it recovers.
//
// Pure: (event, now) in, requests out. It holds no socket, clock, file or thread; the daemon, the
// simulator and the tests drive this same object. One unit of computing is one work() call, so
// whoever drives it decides what time that costs. Single thread.
//
// docs/architecture.md draws the states; docs/wire_format.md tells the exchange.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/clock.h"
#include "runtime/base/random.h"
#include "runtime/net/transport.h"
#include "runtime/privacy/discrete_gaussian.h"
#include "runtime/quant/codec.h"
#include "runtime/train/trainer.h"
#include "runtime/train/training.h"
#include "runtime/wire/messages.h"
#include "runtime/worker/worker_state.h"

namespace paceline {

// One board's data on its compute backend.
class LocalTrainer {
 public:
  virtual ~LocalTrainer() = default;
  // Gradient of the mean loss over the next `rows` rows of this board's stream; returns that loss.
  virtual Result<float> gradient(std::span<const float> parameters, uint32_t rows,
                                 std::span<float> gradient) = 0;
  // As Trainer::touched().
  virtual std::span<const ElementRange> touched() const { return {}; }
  // Whether there is enough to train on; until then the worker waits.
  virtual bool ready() const { return true; }
  // Counts over the hold-out.
  virtual Result<EvaluationCounts> evaluate(std::span<const float> parameters) = 0;
  // Where the stream of rows stands; seek() goes on from there, or anew where there is no such row.
  virtual RowCursor cursor() const { return {}; }
  virtual void seek(RowCursor) {}
};

// What a worker says of its data.
struct RowCounts {
  uint64_t training_rows = 0;
  uint64_t held_out_rows = 0;
  uint32_t feature_count = 0;
  uint32_t class_count = 0;
  bool operator==(const RowCounts&) const = default;
};

// What a run's description means on this board.
struct LocalRun {
  RunSpec spec;
  std::unique_ptr<LocalTrainer> trainer;
  // Where the run says which columns count: what there is of them. Said in another Hello where it
  // differs from the first one's.
  std::optional<RowCounts> rows = {};
};
// Errors: the run does not fit this board's data; the worker then stops with that message.
using LocalRunFactory = std::function<Result<LocalRun>(const std::string& run_text)>;

// With the rows as far as they are known before the run is.
struct WorkerOptions : RowCounts {
  std::string name;
  std::string build;
  uint64_t incarnation = 1;
  uint64_t jitter_seed = 0;
  RandomBytes noise_bytes;  // secret; asked only where the run is private
  double epsilon_max = 0;   // above 0: takes part in private runs only, and up to so much
  bool unsend = true;  // false: what is refused as late is forgotten; shows what un-send is for
};

// Sees where gradient mass goes, for checkers: Σ produced = Σ carried by payloads + residual + Σ
// lost.
class MassObserver {
 public:
  virtual ~MassObserver() = default;
  virtual void produced(std::span<const float> update) = 0;
  // Left the worker's books without being sent: scaled away, dropped or reset.
  virtual void lost(std::span<const float> values) = 0;
  // An update that was refused or forgotten is in the residual again.
  virtual void taken_back(uint64_t /*sequence*/) {}
};

struct WorkerStats {
  uint64_t steps = 0;  // finished local steps
  uint64_t exchanges = 0;
  uint64_t refused_late = 0;
  uint64_t rounds_missed = 0;      // closed without this worker
  uint64_t rolled_back = 0;        // new generations met
  uint64_t lost_count = 0;         // times that mass was scaled away, dropped or reset
  double lost_gradient_total = 0;  // what was lost by that: L2 norms in weight units, summed
  uint64_t not_finite = 0;         // cuts without an update because something was not finite
  uint64_t checksum_faults = 0;    // published model differed from the server's
  TimeUs waited_us = 0;            // with nothing to compute since the first step
  TimeUs evaluated_us = 0;
};

// What has become of a saved state.
enum class Restored {
  kNothing,   // there was none
  kWaiting,   // the server's Welcome will tell
  kKept,      // the worker goes on with it
  kOutdated,  // more has happened since it was saved: residual and momentum start from zero
  kOtherRun,  // it belongs to another run: as if there had been none
};

enum class Activity {
  kIdle,      // waits for an answer or a timer
  kTrain,     // work() does one local step (tau = 1: one micro-batch)
  kEvaluate,  // work() evaluates the published model on the hold-out
  kStopped,   // the run is over or this worker has left; failure() tells which
};

class WorkerCore {
 public:
  struct Outgoing {
    Lane lane;
    Envelope envelope;
    TimeUs timeout_us;
  };

  WorkerCore(WorkerOptions options, LocalRunFactory factory);

  // Takes up what save() gave in an earlier life; before start(). The first Welcome decides whether
  // it is still true. Errors: kCorrupt, kInvalidArgument if it is another worker's; the core is
  // then as new.
  Status restore(ByteSpan state);
  // What has to outlive the process, between any two events; empty while there is nothing.
  Bytes save() const;
  Restored restored() const { return restored_; }

  // Events.
  void start(TimeUs now);
  void on_reply(Lane lane, const Envelope& reply, TimeUs now);
  // The newest request of `lane` got no answer: what happened to it is unknown.
  void on_failure(Lane lane, const Status& status, TimeUs now);
  void on_timer(TimeUs now);  // due when now >= next_timer()
  // Does one unit of activity(), which must be kTrain or kEvaluate; `now` is when it ends.
  void work(TimeUs now);
  // Sends what there is in Q8 and leaves when the server has answered; the driver bounds how long
  // it waits for kStopped. Who never took part, or has no answering server, stops at once.
  void leave(TimeUs now);

  // What the driver acts on after each event.
  std::vector<Outgoing> take_outgoing();
  Activity activity() const;
  TimeUs next_timer() const;
  // Changes when the unit of work in progress has become pointless and should be aborted.
  uint64_t work_ticket() const { return work_ticket_; }
  // Rows that the next unit of training computes on.
  uint32_t next_rows() const;
  // Rows of a whole local step.
  uint32_t batch_rows() const;
  // To be sent on Lane::kHeartbeat every heartbeat_ms(); nothing before there is a session.
  std::optional<Envelope> heartbeat() const;
  uint32_t heartbeat_ms() const { return heartbeat_ms_; }

  // For status, tests and checkers.
  const WorkerStats& stats() const { return stats_; }
  Status failure() const { return failure_; }
  const std::string& waiting_for() const { return waiting_for_; }
  uint64_t generation() const { return generation_; }
  uint64_t publication() const { return publication_; }
  uint64_t round() const { return round_; }
  const Directive& directive() const { return directive_; }
  uint32_t published_checksum() const { return published_checksum_; }
  float training_loss() const { return last_loss_; }
  std::span<const float> published() const { return published_; }
  const std::string& run_text() const { return run_text_; }  // empty: none known
  const RunSpec& run() const { return run_.spec; }
  std::span<const float> residual() const { return residual_; }
  // Of a private run: what this worker has spent at most, all lives together.
  double spent_epsilon() const;
  void set_observer(MassObserver* observer) { observer_ = observer; }

 private:
  enum class Phase { kConnect, kFetch, kTrain, kPush, kCommit, kStopped };

  // worker_exchange.cpp: the conversation.
  void send(Lane lane, Message message, TimeUs timeout_us);
  void resend(Lane lane);
  void retry_later(Lane lane, TimeUs now);
  void say_hello(TimeUs now);
  void on_welcome(const Welcome& welcome, TimeUs now);
  Status adopt_run(const Welcome& welcome);
  bool rows_differ() const { return run_.rows && *run_.rows != options_; }
  void resume(const Welcome& welcome);
  // Who knows the run's file can work out what it starts from, if that was not given to it.
  void begin_at_start(uint32_t checksum);
  void settle_from(const Welcome& welcome, TimeUs now);
  void on_granted(const Granted& granted, TimeUs now);
  void on_refused(const Refused& refused, TimeUs now);
  bool take_answer(const Message& message, TimeUs now);
  void on_heartbeat(const HeartbeatReply& reply, TimeUs now);
  void on_fetched(const Fetched& fetched, TimeUs now);
  Status take_chunk(const Fetched& fetched);
  void ask_fetch();
  void go_to_publication(uint64_t publication, TimeUs now);
  void push_next();
  void commit();
  void fail_with(Status status);

  // worker_round.cpp: training and the books.
  void begin_period(TimeUs now);
  void train_unit(TimeUs now);
  void pull_back();
  void evaluate_unit(TimeUs now);
  void after_unit(TimeUs now);
  bool accumulating() const { return directive_.tau == 1; }
  uint32_t epoch_steps() const;
  uint32_t steps_minimum() const;
  uint32_t steps_cap() const;
  uint32_t micro_batches() const;
  uint32_t steps_done() const;
  void cut(TimeUs now);
  bool privacy_is_spent(uint64_t updates) const;
  void make_private(std::span<float> update);
  void encode_pending(CodecId codec, std::span<float> update);
  void absorb_period();  // the round closed without this worker
  void unsend_pending();
  void settle_applied();
  void cap_residual(double step_count);
  void add_pending_to(std::span<float> flat) const;
  void drop_pending(const char* why);  // payload and residual
  void drop_residual(const char* why);
  void lose(std::span<const float> values);
  void enter(Phase phase, TimeUs now);
  void update_idle(TimeUs now);
  uint32_t transfer_us(TimeUs now) const;

  WorkerOptions options_;
  LocalRunFactory factory_;
  MassObserver* observer_ = nullptr;
  Random jitter_;

  // Of an earlier life, until the first Welcome.
  std::optional<WorkerState> saved_;
  Bytes saved_bytes_;
  Restored restored_ = Restored::kNothing;

  // Session.
  Phase phase_ = Phase::kConnect;
  Status failure_;
  std::string waiting_for_ = "the server's first answer";
  uint64_t session_ = 0;
  uint64_t generation_ = 0;
  uint64_t round_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t last_settled_ = 0;
  uint32_t heartbeat_ms_ = 1000;
  TimeUs exchange_timeout_us_ = from_ms(5000);
  Directive directive_;
  bool leaving_ = false;
  bool goodbye_sent_ = false;  // in an exchange, which only its answer settles
  uint64_t work_ticket_ = 1;

  // Requests in flight: the last message of each lane, to be sent again as it is.
  struct LaneState {
    std::optional<Message> message;
    TimeUs timeout_us = 0;
    TimeUs retry_at = kNever;
    uint32_t failures = 0;
  };
  LaneState lanes_[kLaneCount];
  std::vector<Outgoing> outgoing_;

  // The run and its model. Flat vectors of layout().element_count() elements.
  std::string run_text_;
  uint64_t run_checksum_ = 0;
  LocalRun run_;
  std::optional<Optimizer> optimizer_;
  std::vector<ElementRange> trained_;  // where the run is private
  uint64_t seed_ = 0;
  std::vector<float> published_;  // as every worker of this publication holds it
  std::vector<float> local_;
  std::vector<float> base_;  // local_ just after the last cut
  std::vector<float> residual_;
  std::vector<float> gradient_;
  std::vector<float> scratch_;
  uint64_t publication_ = 0;        // 0: none held
  uint64_t local_publication_ = 0;  // that local_ stands on; 0: it starts from the next one
  uint32_t published_checksum_ = 0;
  uint64_t target_publication_ = 0;
  bool need_exact_ = false;
  Fetched incoming_;  // what of the chunk set so far: numbers only
  std::vector<Bytes> incoming_chunks_;

  // The period since the last cut.
  StatisticsPool seen_;        // of every batch
  uint32_t period_units_ = 0;  // steps, or micro-batches where tau = 1
  double period_loss_ = 0;
  bool ready_sent_ = false;
  bool cut_now_ = false;  // Close has come
  bool evaluate_next_ = false;
  bool not_finite_ = false;
  std::vector<Evaluation> evaluations_;
  uint64_t evaluated_publication_ = 0;
  std::optional<PendingUpdate> pending_;

  // What the server chooses codecs from, of the pending update; 0 where it was not measured.
  struct Measured {
    uint32_t push_us = 0;
    uint32_t fetch_us = 0;
    float update_norm = 0;
    float coded_norm = 0;
    float residual_norm = 0;
  };
  Measured measured_;
  TimeUs transfer_began_ = kNever;  // kNever: it was interrupted, and its time says nothing

  // Medians over the last exchanges, per step: what a residual may hold after an un-send.
  std::deque<double> update_norms_;
  std::deque<double> residual_norms_;

  uint64_t clock_ = 0;
  float last_loss_ = 0;
  TimeUs idle_since_ = kNever;
  TimeUs waited_before_ = 0;  // of stats_.waited_us at the last exchange
  TimeUs unit_started_ = 0;
  double step_us_ = 0;  // smoothed
  WorkerStats stats_;
};

}  // namespace paceline
