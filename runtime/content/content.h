// What an exchange carries: which codec goes up and which goes down (docs/content.md).
//
// Bits and frequency are one decision: on a thin link fewer bits buy more exchanges. Estimators are
// told what was measured: links, what codecs keep back, how far the published model lags. choose()
// compares what every pair of codecs would cost at the tau that it would have. ContentPolicy holds
// the rules of when to change; the Director (server/director.h) asks it at each cut. Pure: no
// clock, no model, no messages. Single thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/bytes.h"
#include "runtime/base/parameter_layout.h"
#include "runtime/base/status.h"
#include "runtime/quant/codec.h"

namespace paceline {

// Median of the last values: a start or a hiccup is one of them.
class RecentMedian {
 public:
  void add(double value);
  double value() const;  // 0 before the first
  bool empty() const { return count_ == 0; }

 private:
  std::array<double, 9> values_ = {};
  size_t count_ = 0;
  size_t next_ = 0;
};

struct LinkCost {
  double trip_us = 0;  // a small question and its answer
  double up_us_per_byte = 0;
  double down_us_per_byte = 0;
};

// One worker's link, from transfers that it timed: time = trips * trip_us + bytes * us_per_byte.
class LinkEstimate {
 public:
  struct Transfer {
    double bytes = 0;
    double trips = 0;  // questions that it took, one after another
    double us = 0;     // not above 0: was not timed
  };
  void observe_trip(double us);
  void observe_up(const Transfer& transfer);
  void observe_down(const Transfer& transfer);
  bool known() const { return !up_.empty() && !down_.empty(); }
  LinkCost cost() const { return {trip_.value(), up_.value(), down_.value()}; }

 private:
  RecentMedian trip_, up_, down_;
};

// Norms of one encoding: |update|, |update + residual| and what was then kept back.
struct CodingNorms {
  double update = 0;  // 0: not known
  double coded = 0;
  double residual = 0;
};

// A codec that keeps back a larger share does not keep up: 33 exchanges pass until what it is given
// is sent.
inline constexpr double kLosingShare = 0.97;

// What the codecs of one direction keep back, and whether the present one falls behind.
class LossEstimate {
 public:
  // Numbers that can't be are ignored: they come from the network.
  void observe(CodecId codec, const CodingNorms& norms);
  // Share of |update + residual|^2 that `codec` keeps back: what was measured, but no less than
  // is usual for it.
  double lost_share(const CodecInfo& codec) const;
  // Ends a round. Why `codec` is losing, for people; empty: it is not.
  std::string losing(CodecId codec);
  // The trend begins again: what was, was another codec's or another tau's.
  void begin_trend();

 private:
  static constexpr size_t kTrendRounds = 16;
  std::map<CodecId, RecentMedian> lost_;
  double backlog_sum_ = 0;  // of this round: |residual| / |update|
  uint32_t backlog_count_ = 0;
  std::array<double, kTrendRounds> backlogs_ = {};  // of the last rounds, oldest first
  size_t backlog_rounds_ = 0;
  uint32_t trend_rounds_ = 0;  // since the trend began
};

// How far the published model lags behind the master after a publication.
struct Gap {
  double norm = 0;         // |master - published|
  double worst_share = 0;  // largest |master - published| / |master| of a tensor
  size_t worst_tensor = 0;
};
Gap measure_gap(const ParameterLayout& layout, std::span<const float> master,
                std::span<const float> published);

// Whether the model has to go down in more bits until it has caught up: the gap is wide, and the
// codec does not close it. A wide gap alone only says that the model moves fast.
class GapWatch {
 public:
  // A gap at `publication`, and the share of |master - published|^2 that the publication kept back.
  // Publications rise.
  void observe(const Gap& gap, double lost_share, uint64_t publication);
  bool closing() const { return closing_; }
  void set_closing(bool closing) { closing_ = closing; }

 private:
  bool closing_ = false;
  uint64_t above_since_ = 0;  // publication; 0: it is not above
};

struct CodecPair {
  CodecId up = CodecId::kS1r;
  CodecId down = CodecId::kS1r;
  bool operator==(const CodecPair&) const = default;
};

// Lengths of one direction's payloads.
struct PayloadSizes {
  double wide_elements = 0;
  double narrow_elements = 0;
  uint32_t chunk_count = 0;
  static PayloadSizes of(const ParameterLayout& layout);
  double bytes(const CodecInfo& codec) const;
};

struct WorkerCost {
  double step_us = 0;  // as a round counts it: who does less in one counts as the median
  LinkCost link;
  double own_step_us = 0;  // of one step, whoever counts it
};

// What the choice is made from.
struct ContentFacts {
  std::span<const WorkerCost> workers;  // whose link is known
  bool rounds = true;         // a round waits for the slowest; otherwise each goes at its own speed
  double exchange_us = 0;     // measured with the present codecs; 0: not yet
  uint32_t tau = 1;           // what the frequency policy wants
  bool follows_link = false;  // and whether the link may raise it
  uint64_t publication = 0;
  double progress = -1;  // of the planned run; negative: no plan
};

// What a pair of codecs would cost.
struct Price {
  CodecPair codecs;
  uint32_t tau = 1;  // without rounds that of the worker with the largest
  double exchange_us = 0;
  double bytes = 0;            // both ways, of one worker
  double us_for_progress = 0;  // time for as much progress as one step without loss makes
};

// The least tau at which computing takes as long as an exchange: a power of two with a dead band
// around `present`, so that it does not follow every measurement.
uint32_t link_tau(uint32_t present, double exchange_us, double step_us);

struct ContentModel {
  PayloadSizes sizes;
  LossEstimate up, down;
  double rest_us = 0;  // of an exchange: what is neither trip nor transfer
  // Of one exchange on such a link: what is neither trip nor transfer is not in it.
  double carried_us(const LinkCost& link, CodecPair codecs) const;
  // facts.workers is not empty.
  Price price(const ContentFacts& facts, CodecPair codecs) const;
};

// The cheapest pair of `ups` x `downs`, neither empty; of almost equal ones that of the fewest
// bytes.
Price choose(const ContentModel& model, const ContentFacts& facts, std::span<const CodecId> ups,
             std::span<const CodecId> downs);

// Whether a codec may be chosen by itself. What may not go down is not chosen for going up either:
// S1R has the bits of S1 and spreads its error.
bool may_be_chosen(const CodecInfo& codec);

struct ContentOptions {
  CodecPair codecs;  // of a direction that is not automatic
  bool up_auto = false;
  bool down_auto = false;
  uint32_t warmup_publications = 0;  // in which a fixed codec of fewer bits goes up as Q8
  PayloadSizes sizes;
};

class ContentPolicy {
 public:
  explicit ContentPolicy(const ContentOptions& options);

  // What became of one worker's update, and of the model's change.
  void observe_update(CodecId codec, const CodingNorms& norms) { model_.up.observe(codec, norms); }
  void observe_publication(CodecId codec, const CodingNorms& norms, const Gap& gap,
                           uint64_t publication);
  bool closing_gap() const { return watch_.closing(); }

  // Codecs of the next round; asked once a round. `tau_moves`: they stay as they are, because
  // content and frequency never change together.
  CodecPair decide(const ContentFacts& facts, bool tau_moves);
  // Of one exchange on such a link with the codecs in use.
  double carried_us(const LinkCost& link) const { return model_.carried_us(link, now_); }
  // Why, for people.
  const std::string& reason_up() const { return reason_up_; }
  const std::string& reason_down() const { return reason_down_; }

  void save(ByteWriter* out) const;
  Status restore(ByteReader* in);

 private:
  void consider(const ContentFacts& facts);
  Price q8_price(const ContentFacts& facts) const;  // what the choice is compared with
  void distrust_losing();
  std::vector<CodecId> candidates(bool up) const;
  void want(CodecPair codecs, const std::string& reason);

  ContentOptions options_;
  ContentModel model_;
  GapWatch watch_;
  CodecPair now_;     // in use
  CodecPair wanted_;  // without what the gap asks for
  std::string reason_up_, reason_down_, wanted_reason_;
  bool warming_up_ = true;
  double progress_began_ = -1;  // of the run, when the first link was measured
  uint32_t rounds_since_change_ = 0;
  uint32_t better_rounds_ = 0;  // in a row in which another pair was clearly cheaper
  // Codecs of so few bits lost before and are left alone for a while.
  double bits_distrusted_up_ = 0, bits_distrusted_down_ = 0;
  uint32_t distrust_rounds_left_ = 0;
  std::string distrusted_reason_;  // of this round
};

}  // namespace paceline
